"""How one answer came, from records that were made up."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.bench.latency_summary import latency
from anyorder.bench.records import Record
from anyorder.bench.release import TOGETHER_S, Release, release


def record(*pieces: tuple[float, str], snapshots: bool = False, **fields: object) -> Record:
    """An answer of (seconds since it was due, text) pieces."""
    times = [time for time, _ in pieces]
    values = {
        "load": "l", "index": 0, "session": 0, "due_s": 0.0, "sent_s": 0.0, "first_s": times[0] if times else None,
        "last_s": times[-1] if times else 3.0, "gaps_s": [b - a for a, b in pairwise(times)],
        "pieces": [text for _, text in pieces], "snapshots": snapshots,
    }  # fmt: skip
    return Record(**{**values, **fields})  # type: ignore[arg-type]


def chunks(found: Release) -> list[tuple[float, str]]:
    return [(chunk.at_s, chunk.text) for chunk in found.chunks]


def test_text_that_is_added_to_is_there_for_good() -> None:
    found = release(record((1.0, "Well, "), (2.0, "it rains. "), (4.0, "Take a coat.")))
    assert found.text == "Well, it rains. Take a coat."
    assert chunks(found) == [(1.0, "Well, "), (2.0, "it rains. "), (4.0, "Take a coat.")]
    assert (found.first_s, found.clause_s, found.sentence_s, found.half_s, found.last_s) == (1.0, 1.0, 2.0, 2.0, 4.0)
    assert found.late_share == pytest.approx(12 / 28)
    assert found.changed == 0


def test_the_end_of_a_sentence_is_known_by_what_follows() -> None:
    """ "3." may become 3.5, and the end of the answer is an end."""
    found = release(record((1.0, "It is 3."), (2.0, "5 metres."), (3.0, " Deep")))
    assert (found.clause_s, found.sentence_s) == (3.0, 3.0)
    assert release(record((1.0, "yes"), (2.0, " of course"))).sentence_s == 2.0
    assert release(record((1.0, ", . "), (2.0, "a: "), (3.0, "b! "))).clause_s == 2.0
    assert release(record((1.0, "はい。"), (2.0, "いいえ"))).sentence_s == 1.0


def test_pieces_that_come_together_are_one_chunk() -> None:
    """A fast stream, whose pieces are all close to the one before, is no single chunk for that."""
    pieces = [(1.0 + number * TOGETHER_S * 0.6, str(number)) for number in range(5)]
    assert [text for _, text in chunks(release(record(*pieces, (2.0, "d"))))] == ["01", "23", "4", "d"]


def test_snapshots_are_for_good_when_no_later_one_changes_them() -> None:
    frames = [(1.0, "a_x_"), (2.0, "abx_"), (3.0, "acx_"), (4.0, "acyd")]
    found = release(record(*frames, snapshots=True))
    assert chunks(found) == [(1.0, "a"), (3.0, "c"), (4.0, "yd")]
    assert (found.first_s, found.half_s) == (1.0, 3.0)
    assert (found.shown, found.changed) == (12, 3 + 3 + 2)


def test_a_snapshot_longer_than_the_text_was_changed() -> None:
    found = release(record((1.0, "abc?"), (2.0, "ab"), snapshots=True))
    assert (found.text, found.shown, found.changed) == ("ab", 4, 2)
    assert chunks(found) == [(1.0, "ab")]


def test_reasoning_is_no_text() -> None:
    found = release(record((1.0, ""), (2.0, "a"), (3.0, "b")))
    assert (found.first_s, found.half_s) == (2.0, 2.0)
    nothing = release(record())
    assert (nothing.first_s, nothing.late_share, nothing.clause_s, list(nothing.chunks)) == (None, None, None, [])


@given(st.lists(st.text("ab. ", max_size=4), min_size=1, max_size=8))
def test_the_two_kinds_of_stream_agree(pieces: list[str]) -> None:
    """Snapshots that only grow are text that is added to."""
    added = [(float(at), piece) for at, piece in enumerate(pieces, 1)]
    whole = [(float(at), text) for at, text in enumerate(accumulate(pieces), 1)]
    found = release(record(*added))
    assert release(record(*whole, snapshots=True)) == found
    assert "".join(chunk.text for chunk in found.chunks) == found.text == "".join(pieces)
    assert found.changed == 0


def test_failures_are_counted_and_in_no_figure() -> None:
    records = [
        record((1.0, "a b. "), (2.0, "c")),
        record((1.0, "a"), error="broken"),
        record(error="http_503"),
        record(),
        record((1.0, "x"), (3.0, "yz"), snapshots=True),
    ]
    found = latency("l", records)
    assert (found.served.requests, found.served.answered, found.served.empty) == (5, 3, 1)
    assert found.served.errors == {"broken": 1, "http_503": 1}
    assert (found.snapshots, found.changed_answers) == (1, 1)
    assert found.clause_s is not None
    assert (found.clause_s.count, found.clause_s.largest) == (2, 3.0)
    assert found.changed_share is not None
    assert found.changed_share.largest == 1.0
    assert found.chunk_words is not None
    assert found.chunk_words.count == 3
    assert found.chunk_words.largest == 2.0
    empty = latency("l", [])
    assert (empty.first_s, empty.chunks) == (None, None)
    assert found.late_share is not None
    assert found.late_share.mean == pytest.approx((1 / 6 + 1) / 2)
