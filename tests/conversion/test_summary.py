"""From records to figures, on records whose figures can be counted by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from anyorder.conversion.measure import Record
from anyorder.conversion.summary import summarise
from anyorder.reporting.statistics import Estimate


def score(tokens: int, nats: float, hits: int = 0) -> Record:
    return {"tokens": tokens, "nats": nats, "hits": hits}


def answer(ids: list[int], *, passes: int = 1, seconds: float = 1.0, **more: Any) -> Record:
    quality = {"under_base": score(len(ids), 2.0 * len(ids)), "repetition": 0.0}
    return {"text": "", "ids": ids, "tokens": len(ids), "passes": passes, "seconds": seconds, **quality, **more}


def value(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.value


def test_perplexity_is_the_exponential_of_nats_per_token_over_all_documents() -> None:
    records = {
        "perplexity": {
            "a": {
                "texts": {"own": {"before": score(1, 3.0), "after": score(1, 4.0)}},
                "bit_identical": True,
                "compared_tokens": 5,
            },
            "b": {
                "texts": {
                    "own": {"before": score(3, 3.0), "after": score(3, 4.0)},
                    "written": {"before": score(2, 1.0), "after": score(2, 1.0)},
                },
                "bit_identical": False,
                "compared_tokens": 9,
            },
        }
    }
    summary = summarise(records)
    own, written = summary.perplexity
    assert (own.text, written.text) == ("own", "written")
    assert value(own.before) == pytest.approx(math.exp(6 / 4))
    assert value(own.after) == pytest.approx(math.exp(8 / 4))
    assert own.after is not None
    assert (own.after.documents, own.after.tokens) == (2, 4)
    assert value(written.after) == pytest.approx(math.exp(0.5))
    assert summary.identity is not None
    assert (summary.identity.identical, summary.identity.documents, summary.identity.tokens) == (1, 2, 14)


def test_masked_cross_entropy_is_summed_by_text_ratio_and_depth() -> None:
    def record(nats: float, hits: int) -> Record:
        by_ratio = [{"ratio": 0.5, **score(2, nats, hits)}, {"ratio": 1.0, **score(4, 3 * nats, hits)}]
        return {"texts": {"own": {"by_ratio": by_ratio, "by_depth": [score(0, 0.0), score(3, nats, hits)]}}}

    summary = summarise({"masked": {"a": record(1.0, 2), "b": record(2.0, 1)}})
    assert [(row.text, row.at) for row in summary.by_ratio] == [("own", 0.5), ("own", 1.0)]
    assert value(summary.by_ratio[0].cross_entropy) == pytest.approx(3 / 4)
    assert value(summary.by_ratio[0].accuracy) == pytest.approx(3 / 4)
    assert value(summary.by_ratio[1].cross_entropy) == pytest.approx(9 / 8)
    first, second = summary.by_depth
    assert first.cross_entropy is None  # the causal mode's own
    assert (second.at, value(second.cross_entropy)) == (1, pytest.approx(3 / 6))


def test_drafts_are_held_against_plain_decoding_and_against_the_base() -> None:
    records = {
        "base": {"a": answer([1, 2]), "b": answer([3, 4])},
        "lossless": {
            "a": {"none": answer([1, 2], passes=2, seconds=3.0), "lookup": answer([1, 2], passes=1, seconds=1.0)},
            "b": {"none": answer([3, 9], passes=2, seconds=1.0), "lookup": answer([3, 9], passes=2, seconds=1.0)},
        },
    }
    plain, lookup = summarise(records).lossless
    assert (lookup.draft, lookup.equal_to_plain, lookup.equal_to_base, lookup.documents) == ("lookup", 2, 1, 2)
    assert value(lookup.tokens_per_forward) == pytest.approx(4 / 3)  # of all tokens and passes, not a mean of ratios
    assert value(lookup.speedup) == pytest.approx(2)  # the median of 3 and 1
    assert value(plain.tokens_per_forward) == value(plain.speedup) == 1


def test_a_draft_that_was_refused_says_why() -> None:
    records = {
        "base": {"a": answer([1])},
        "lossless": {"a": {"none": answer([1]), "tree": {"refused": "there is no table"}}},
    }
    refused = summarise(records).lossless[1]
    assert (refused.draft, refused.refused, refused.documents) == ("tree", "there is no table", 0)


def test_thresholds_are_held_against_the_bases_texts() -> None:
    records = {
        "base": {"a": answer([1, 2]), "b": answer([3, 4, 5, 6])},
        "threshold": {
            "a": {"0.9": answer([1, 2], prefix=2, similarity=1.0)},
            "b": {"0.9": answer([3, 7], prefix=1, similarity=0.5)},
        },
    }
    summary = summarise(records)
    (row,) = summary.threshold
    assert (row.threshold, row.equal_to_base, row.documents) == (0.9, 1, 2)
    assert value(row.prefix) == pytest.approx(3 / 6)
    assert value(row.similarity) == pytest.approx(0.75)
    assert value(row.quality.base_nats) == pytest.approx(2)
    assert value(summary.base.base_nats) == pytest.approx(2)
    assert value(row.tokens_per_forward) == pytest.approx(2)


def test_nothing_measured_is_an_empty_summary() -> None:
    summary = summarise({})
    assert summary.identity is None
    assert summary.base.base_nats is None
    assert not any((summary.perplexity, summary.by_ratio, summary.by_depth, summary.lossless, summary.threshold))
