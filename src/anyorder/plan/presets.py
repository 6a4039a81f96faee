"""Accelerators as their makers' public data sheets describe them; none of these figures was measured by us.

Matrix rates are dense bfloat16 products with float32 sums, without sparsity.
"""

from __future__ import annotations

from anyorder.plan.machine import Machine

GB = 10**9


def _card(name: str, bandwidth: float, rate: float, memory: int) -> Machine:
    return Machine(name=name, bandwidth=bandwidth * 1e12, matrix_rate=rate * 1e12, memory=memory * GB)


MACHINES: dict[str, Machine] = {
    "a100": _card("NVIDIA A100 SXM 80 GB", 2.039, 312, 80),
    "h100": _card("NVIDIA H100 SXM 80 GB", 3.35, 989.5, 80),
    "h200": _card("NVIDIA H200 SXM 141 GB", 4.8, 989.5, 141),
    "b200": _card("NVIDIA B200 180 GB", 8.0, 2250, 180),
    "l4": _card("NVIDIA L4 24 GB", 0.300, 121, 24),
    "l40s": _card("NVIDIA L40S 48 GB", 0.864, 362, 48),
    "rtx4090": _card("NVIDIA GeForce RTX 4090 24 GB", 1.008, 165.2, 24),
    "rtx5090": _card("NVIDIA GeForce RTX 5090 32 GB", 1.792, 209.5, 32),
    "mi300x": _card("AMD Instinct MI300X 192 GB", 5.3, 1307.4, 192),
}
"""Name on the command line -> data sheet."""
