"""Figures of records that were made up, so that every one is known."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.bench.plot import plot
from anyorder.bench.records import Record
from anyorder.bench.summary import Percentiles, meets, parse_slo, percentile, spans, summarise
from anyorder.errors import ParameterError

GOOD = Record(load="l", index=0, session=0, due_s=1.0, sent_s=1.0, first_s=0.5, last_s=2.0, gaps_s=[0.5, 1.0],
              tokens=20, prompt_tokens=10, cached_tokens=5, tokens_per_forward=2.0, unused_share=0.5)  # fmt: skip


def test_known_records_have_known_figures() -> None:
    records = [
        GOOD,
        replace(GOOD, index=1, due_s=2.0, sent_s=2.25, first_s=1.5, last_s=4.0, gaps_s=[2.5], tokens=10),
        replace(GOOD, index=2, due_s=0.5, error="http_503", first_s=None, last_s=0.1, tokens=None),
        replace(GOOD, index=3, first_s=None, gaps_s=[], tokens=0),
        replace(GOOD, index=4, error="timeout", last_s=9.0),
        replace(GOOD, index=5, tokens=None, tokens_per_forward=None, unused_share=None),
    ]
    found = summarise("l", records, {"ttft": 1.0, "ttlt": 3.0})
    assert (found.requests, found.answered, found.errors) == (6, 4, {"http_503": 1, "timeout": 1})
    assert (found.empty, found.uncounted) == (1, 1)
    assert found.span_s == 9.5  # from 0.5, when the refused one was due, to the end of the one that timed out
    assert found.requests_per_s == pytest.approx(4 / 9.5)
    assert found.tokens_per_s == pytest.approx(30 / 9.5)
    assert found.goodput_share == pytest.approx(2 / 6)  # the first and the last; the empty one is read at its end
    assert found.goodput_per_s == pytest.approx(2 / 9.5)
    assert found.ttft_s is not None
    assert (found.ttft_s.count, found.ttft_s.p50, found.ttft_s.largest) == (3, 0.5, 1.5)
    assert found.gap_s is not None
    assert (found.gap_s.count, found.gap_s.largest) == (5, 2.5)
    assert found.tokens_per_request_s is not None
    assert found.tokens_per_request_s.largest == 10.0
    assert found.tokens_per_forward is not None
    assert found.tokens_per_forward.count == 3
    assert found.cached_share == 0.5
    assert found.late_s == 0.5


def test_nothing_has_no_figures() -> None:
    found = summarise("l", [], {"ttft": 1.0})
    assert (found.ttft_s, found.tokens_per_s, found.goodput_share, found.cached_share) == (None, 0.0, None, None)
    assert summarise("l", [GOOD]).goodput_per_s is None


def test_sessions_have_clocks_of_their_own() -> None:
    """A run that was stopped and went on took the time of both."""
    records = [GOOD, replace(GOOD, session=1, due_s=100.0), replace(GOOD, session=1, due_s=103.0)]
    assert spans(records) == {0: 2.0, 1: 5.0}
    assert summarise("l", records).tokens_per_s == pytest.approx(60 / 7)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=60))
def test_percentiles_are_those_of_statistics(values: list[float]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    found = Percentiles.of(values)
    assert found is not None
    for percent in (50, 90, 95, 99):
        assert percentile(sorted(values), percent) == pytest.approx(cuts[percent - 1], rel=1e-9, abs=1e-9)
        assert getattr(found, f"p{percent}") == percentile(sorted(values), percent)


@pytest.mark.parametrize(
    ("slo", "met"),
    [("ttft=0.5", True), ("ttft=0.49", False), ("ttlt=2,gap=1", True), ("gap=0.9", False), ("ttlt=1.9", False)],
)
def test_limits_are_met_or_not(slo: str, met: bool) -> None:
    assert meets(GOOD, parse_slo(slo)) == met
    assert not meets(replace(GOOD, error="timeout"), parse_slo(slo))


@pytest.mark.parametrize("slo", ["", "ttft", "ttft=0", "ttft=x", "first=1", "ttft=nan", "ttft=0.5,"])
def test_limits_are_checked(slo: str) -> None:
    with pytest.raises(ParameterError, match="known: ttft, ttlt, gap; got"):
        parse_slo(slo)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_sweep_is_drawn(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    sweep = [summarise(f"concurrency {n}", [replace(GOOD, load=f"{n}", last_s=float(n))] * n) for n in (1, 2, 4)]
    plot([*sweep, summarise("rate 3", [replace(GOOD, error="connect")])], tmp_path / f"sweep{suffix}")
    assert (tmp_path / f"sweep{suffix}").stat().st_size > 5000
