"""anyorder: the open engine for diffusion language models.

import anyorder

model = anyorder.load("smollm2")
print(anyorder.generate(model, "The sky is", max_new_tokens=16).text)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anyorder.api import EventStream, generate, generate_batch, infill, load, score, stream
    from anyorder.canvas import Hole
    from anyorder.chat import ChatSession
    from anyorder.errors import AnyorderError
    from anyorder.generation import Generation, Stats
    from anyorder.images import Image
    from anyorder.params import DecodeParams

__version__ = "0.1.0"

__all__ = [
    "AnyorderError", "ChatSession", "DecodeParams", "EventStream", "Generation", "Hole", "Image", "Stats",
    "generate", "generate_batch", "infill", "load", "score", "stream",
]  # fmt: skip

_HOMES = {
    "AnyorderError": "errors", "ChatSession": "chat", "DecodeParams": "params", "EventStream": "api",
    "Generation": "generation", "Hole": "canvas", "Image": "images", "Stats": "generation", "generate": "api",
    "generate_batch": "api", "infill": "api", "load": "api", "score": "api", "stream": "api",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import on first use, so that `anyorder --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
    return getattr(import_module(f"anyorder.{_HOMES[name]}"), name)
