"""Choice of device and dtype."""

from __future__ import annotations

import torch

from anyorder.errors import ParameterError

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def choose_device(device: str | torch.device) -> torch.device:
    """The device to use; "auto" is CUDA, else MPS, else the CPU.

    Raises:
        ParameterError: no such device here.
    """
    if device == "auto":
        return torch.device(_best())
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        raise ParameterError(f"device must be auto, cpu, cuda[:N] or mps, got {device!r}", param="device") from None
    usable = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not usable.get(chosen.type):
        known = ", ".join(name for name, there in usable.items() if there)
        raise ParameterError(f"device {str(device)!r} is not available here; available: {known}", param="device")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise ParameterError(f"device {str(device)!r} does not exist; the last is cuda:{last}", param="device")
    return chosen


def parse_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype | None:
    """The dtype asked for; None for "auto".

    Raises:
        ParameterError: unknown, or unusable on the device.
    """
    if dtype == "auto":
        return None
    chosen = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in DTYPES.values():
        raise ParameterError(f"dtype must be auto, {', '.join(DTYPES)}, got {dtype!r}", param="dtype")
    if chosen == torch.float16 and device.type == "cpu":
        raise ParameterError("dtype float16 is slow and overflows on a CPU; use bfloat16 or float32", param="dtype")
    if chosen == torch.float64 and device.type == "mps":
        raise ParameterError("dtype float64 does not exist on mps; use float32", param="dtype")
    return chosen


def automatic_dtype(stored: torch.dtype) -> torch.dtype:
    """The dtype for "auto": half-precision checkpoints run in bfloat16, all others in float32."""
    return torch.bfloat16 if stored in (torch.bfloat16, torch.float16) else torch.float32


def _best() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
