"""One request on its way through the engine: its decoder, its keys and values, its figures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from anyorder.cache.drift import Drift
from anyorder.cache.storage import KVStorage
from anyorder.decoders.base import Decoder
from anyorder.engine.prefill import Prefill
from anyorder.events import Event
from anyorder.window import Window


@dataclass(eq=False)
class Sequence:
    """A running request.

    Attributes:
        storage: None when no pass of the request reads stored columns.
        measure_drift: compute every cached denoising pass a second time without cache.
        prefill: compute the prompt, or what was lost, in chunks; None: in one go, or the decoder has taken
            over.
        failure: what went wrong, in an engine that goes on without the request.
    """

    decoder: Decoder
    storage: KVStorage | None = None
    measure_drift: bool = False
    drift: Drift = field(default_factory=Drift)
    prefill: Prefill | None = None
    failure: Exception | None = None
    chunk_end: int | None = None  # where the planned pass is a chunk of the prompt

    @property
    def running(self) -> bool:
        """True until the decoder has finished."""
        return self.decoder.finished is None and self.failure is None

    @property
    def prompt_tokens(self) -> int:
        """Columns of given text that the next pass computes; 0 behind it, and where nothing is stored."""
        return self.prefill.tokens(self.decoder.stored) if self.prefill else self.decoder.reads

    def plan(self) -> list[Window]:
        """The next chunk of the prompt, or what the decoder wants."""
        chunk = self.prefill.window(self.decoder) if self.prefill else None
        self.chunk_end = chunk.end if chunk else None
        return [self._pictured(window) for window in (self.decoder.plan() if chunk is None else [chunk])]

    def uncached(self, window: Window) -> Window:
        """See `Decoder.uncached`."""
        return self._pictured(self.decoder.uncached(window))

    def _pictured(self, window: Window) -> Window:
        """Decoders feed the slots of a picture like any text; what is in them is said here."""
        return window.picturing(self.decoder.canvas.pictures)

    def decide(self, rows: list[Tensor]) -> Tensor:
        """See `Decoder.decide`; a chunk of the prompt decides nothing."""
        return self.decoder.decide(rows) if self.chunk_end is None else rows[0].new_empty((3, 0))

    def apply(self, decision: Tensor) -> list[Event]:
        """See `Decoder.apply`."""
        if self.chunk_end is not None:
            self.decoder.prefilled(self.chunk_end)
            return []
        self.prefill = None
        return self.decoder.apply(decision)

    def lose(self, reread: Prefill) -> None:
        """Give up the storage between two passes; with the next one the sequence goes on where it was.

        Args:
            reread: how the columns that a decoder had stored are computed again; it says its chunks.
        """
        if self.prefill is None:
            self.prefill = replace(reread, columns=self.decoder.stored, whole=True)
        self.decoder.forget()
        self.storage = None

    def measures(self, plan: list[Window]) -> bool:
        """True if the drift of this pass is wanted and there is any to measure."""
        return self.measure_drift and plan[0].stores and plan[0].rows.numel() > 0
