"""Seams: what was lost where slots were committed from the same pass although they depended on each other."""

from anyorder.seams.measure import measure_seams
from anyorder.seams.report import Pair, PassGap, SeamReport

__all__ = ["Pair", "PassGap", "SeamReport", "measure_seams"]
