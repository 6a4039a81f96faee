"""What probably follows a text, by counting what followed its last tokens elsewhere; no network, microseconds."""

from __future__ import annotations

from anyorder.ngrams.guess import Guesser
from anyorder.ngrams.table import FILE, NgramTable

__all__ = ["FILE", "Guesser", "NgramTable"]
