"""Which columns a scheme feeds."""

from __future__ import annotations

from typing import Any

import pytest

from anyorder.cache.schemes import Span, block_span, full_canvas_span

CANVAS, BLOCK, SUB = Span(0, 20), Span(8, 12), Span(10, 12)


@pytest.mark.parametrize(
    ("scheme", "first", "later"),
    [("none", CANVAS, CANVAS), ("prefix", CANVAS, Span(8, 20)), ("dual", CANVAS, BLOCK)],
)
def test_canvas_schemes(scheme: Any, first: Span, later: Span) -> None:
    assert full_canvas_span(scheme, BLOCK, CANVAS, first_pass=True) == first
    assert full_canvas_span(scheme, BLOCK, CANVAS, first_pass=False) == later


@pytest.mark.parametrize(
    ("scheme", "refresh", "later"),
    [("none", Span(0, 12), Span(0, 12)), ("block", BLOCK, BLOCK), ("sub_block", BLOCK, SUB)],
)
def test_block_schemes(scheme: Any, refresh: Span, later: Span) -> None:
    assert block_span(scheme, SUB, BLOCK, refresh=True) == refresh
    assert block_span(scheme, SUB, BLOCK, refresh=False) == later
