"""Seams: what was lost where slots were committed from the same pass although they depended on each other."""

from anyorder.seams.measure import check_seams, measure_seams
from anyorder.seams.report import Pair, PassGap, Seam, SeamReport

__all__ = ["Pair", "PassGap", "Seam", "SeamReport", "check_seams", "measure_seams"]
