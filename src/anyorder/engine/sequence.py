"""One request on its way through the engine: its decoder, its keys and values, its figures."""

from __future__ import annotations

from dataclasses import dataclass, field

from anyorder.cache.drift import Drift
from anyorder.cache.storage import KVStorage
from anyorder.decoders.base import Decoder
from anyorder.window import Window


@dataclass
class Sequence:
    """A running request.

    Attributes:
        storage: None when no pass of the request reads stored columns.
        measure_drift: compute every cached denoising pass a second time without cache.
    """

    decoder: Decoder
    storage: KVStorage | None = None
    measure_drift: bool = False
    drift: Drift = field(default_factory=Drift)

    @property
    def running(self) -> bool:
        """True until the decoder has finished."""
        return self.decoder.finished is None

    def measures(self, plan: list[Window]) -> bool:
        """True if the drift of this pass is wanted and there is any to measure."""
        return self.measure_drift and plan[0].stores and plan[0].rows.numel() > 0
