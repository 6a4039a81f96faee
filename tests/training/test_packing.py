"""Packing keeps every token worth learning, in rows that never overflow; rows are a pure function of their number."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.training.corpus import FakeStream, chat, fake_hub, vocabulary, write_lines

from anyorder.errors import DataError, MissingExtra, ParameterError
from anyorder.training.batch import PADDING, Batch
from anyorder.training.data.documents import Documents
from anyorder.training.data.encode import Example, Vocabulary
from anyorder.training.data.packing import Packer, Packing, Span
from anyorder.training.data.prepare import check_manifest, prepare, write_manifest
from anyorder.training.data.rows import PackedRows, Share
from anyorder.training.data.spec import ChatData, IdsData, JsonlData, StreamData
from anyorder.training.data.stream import StreamedRows


def documents_of(lengths: list[int], prompt: int = 0) -> Documents:
    """Documents of these lengths whose tokens are numbered through; the first `prompt` of each are not trainable."""
    documents = Documents()
    for length in lengths:
        start = len(documents.ids)
        documents.add(Example(list(range(start, start + length)), [place >= prompt for place in range(length)]))
    return documents


def pack(documents: Documents, length: int, packing: Packing) -> tuple[list[list[Span]], Packer]:
    packer = Packer(length, documents.trainable)
    return packer.pack(documents.ends, packing), packer


@given(st.lists(st.integers(2, 30), max_size=40), st.integers(2, 17), st.sampled_from(["best-fit", "in-order"]))
def test_every_token_is_in_one_row_or_counted(lengths: list[int], length: int, packing: Packing) -> None:
    documents = documents_of(lengths)
    rows, packer = pack(documents, length, packing)
    sizes = [sum(span.stop - span.start for span in row) for row in rows]
    assert all(0 < size <= length for size in sizes)
    taken = [token for row in rows for span in row for token in range(span.start, span.stop)]
    assert len(taken) == len(set(taken))
    assert len(taken) + packer.report.dropped_tokens == sum(lengths)
    assert packer.report.padding == pytest.approx(1 - len(taken) / (len(rows) * length) if rows else 0)
    if packing == "in-order":
        assert taken == sorted(taken)
        assert all(size >= length - 1 for size in sizes[:-1])  # a last token alone is no document


@given(st.lists(st.integers(2, 9), min_size=1, max_size=60))
def test_best_fit_cuts_nothing_that_fits(lengths: list[int]) -> None:
    rows, packer = pack(documents_of(lengths), 9, "best-fit")
    assert packer.report.split == packer.report.dropped == 0
    assert sorted(span.stop - span.start for row in rows for span in row) == sorted(lengths)
    assert len(rows) <= 2 * sum(lengths) / 9 + 1  # no two rows could be one, up to the order in which they came


def test_long_documents_are_cut_and_parts_without_an_answer_are_counted() -> None:
    documents = documents_of([25, 5], prompt=12)
    documents.add(Example([90, 91, 92], [False, True, True]))
    rows, packer = pack(documents, 10, "best-fit")
    assert rows == [[Span(10, 20)], [Span(20, 25), Span(30, 33)]]
    assert (packer.report.split, packer.report.dropped, packer.report.dropped_tokens) == (1, 2, 15)


def packed_rows(seed: int = 0, weights: tuple[float, float] = (1, 1)) -> PackedRows:
    """Two sources of 6 and 4 rows; tokens 0 to 23 are of the first, 24 to 35 of the second."""
    documents = documents_of([4] * 6 + [3] * 4)
    rows = [[Span(start, stop)] for start, stop in zip(documents.ends, documents.ends[1:], strict=False)]
    shares = [Share(rows[:6], weights[0]), Share(rows[6:], weights[1])]
    return PackedRows(documents, shares, length=5, seed=seed)


def same(one: Batch, other: Batch) -> bool:
    return all(
        torch.equal(a, b)
        for a, b in zip(
            (one.ids, one.documents, one.trainable), (other.ids, other.documents, other.trainable), strict=True
        )
    )


def test_rows_are_a_function_of_their_number() -> None:
    rows, again = packed_rows(), packed_rows()
    whole = rows.batch(0, 35)
    for start in (33, 0, 17, 9):
        part = again.batch(start, 2)
        assert same(part, Batch(whole.ids[start:][:2], whole.documents[start:][:2], whole.trainable[start:][:2]))


def test_an_epoch_has_every_row_once_and_each_epoch_another_order() -> None:
    rows = packed_rows()
    assert len(rows) == 10
    epochs = [[tuple(row) for row in rows.batch(epoch * 10, 10).ids.tolist()] for epoch in range(3)]
    assert len(set(epochs[0])) == 10
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert epochs[0] != epochs[1] != epochs[2]
    assert rows.batch(0, 10).ids.tolist() != packed_rows(seed=1).batch(0, 10).ids.tolist()


def test_weights_repeat_a_source_or_take_a_changing_part_of_it() -> None:
    rows = packed_rows(weights=(0.5, 2))
    assert len(rows) == 3 + 8
    epochs = [rows.batch(epoch * 11, 11).ids[:, 0].tolist() for epoch in range(4)]
    for firsts in epochs:
        second = [first for first in firsts if first >= 24]
        assert len(second) == 8
        assert len(set(second)) == 4
        assert len({first for first in firsts if first < 24}) == 3
    assert len({tuple(sorted(firsts)) for firsts in epochs}) > 1


def test_a_batch_says_documents_padding_and_prompts() -> None:
    documents = documents_of([3, 2], prompt=1)
    rows = PackedRows(documents, [Share([[Span(0, 3), Span(3, 5)]])], length=7)
    batch = rows.batch(0, 1)
    assert batch.documents.tolist() == [[0, 0, 0, 1, 1, PADDING, PADDING]]
    assert batch.trainable.tolist() == [[False, True, True, False, True, False, False]]
    assert batch.positions.tolist()[0][:5] == [0, 1, 2, 0, 1]


def test_no_row_is_an_error() -> None:
    with pytest.raises(ParameterError, match="comes to no row"):
        PackedRows(documents_of([3]), [Share([[Span(0, 3)]], 0.1)], length=7)


def test_two_sources_are_packed_apart_and_their_manifest_is_written(tmp_path: Path) -> None:
    chats = write_lines(tmp_path / "a.jsonl", [chat("hello", "well")] * 3)
    ids = write_lines(tmp_path / "b.jsonl", [{"prompt_ids": [1], "answer_ids": [2, 3]}] * 5)
    sources = [ChatData(kind="chat", path=chats), IdsData(kind="ids", path=ids)]
    seen: list[int] = []
    prepared = prepare(
        sources, vocabulary(tmp_path / "words"), length=64, watch=lambda report: seen.append(report.documents)
    )
    assert seen == [1, 2, 3, 1, 2, 3, 4, 5]
    assert prepared.packing is not None
    assert prepared.packing.rows == 3
    manifest = prepared.manifest()
    write_manifest(manifest, tmp_path)
    written = json.loads((tmp_path / "data.json").read_text("utf-8"))
    assert [source["documents"] for source in written["sources"]] == [3, 5]
    assert written["sources"][0]["files"][0]["path"] == str(chats)
    check_manifest(manifest, tmp_path)


def test_changed_data_is_noticed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"prompt_ids": [1], "answer_ids": [2, 3]}])
    source, words = IdsData(kind="ids", path=path), Vocabulary(None, 9)
    write_manifest(prepare([source], words, length=8).manifest(), tmp_path)
    write_lines(path, [{"prompt_ids": [1], "answer_ids": [2, 4]}])
    with pytest.raises(DataError, match=r"a\.jsonl has changed since .*data\.json was written"):
        check_manifest(prepare([source], words, length=8).manifest(), tmp_path)
    write_lines(path, [{"prompt_ids": [1], "answer_ids": [2, 3]}])
    with pytest.raises(DataError, match="what is made of the data has changed"):
        check_manifest(prepare([source], words, length=4).manifest(), tmp_path)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return fake_hub(monkeypatch, [{"text": "hello " * n, "n": n} for n in range(1, 8)])


def stream(**fields: Any) -> StreamData:
    return StreamData(kind="stream", path="some/set", **fields)


def test_a_limited_stream_is_read_once_like_a_file(tmp_path: Path, hub: dict[str, Any]) -> None:
    words = vocabulary(tmp_path / "words")
    prepared = prepare([stream(limit=3, name="en", files=("a.json",))], words, length=16)
    assert hub["asked"] == (("some/set", "en"), {"split": "train", "streaming": True, "data_files": ["a.json"]})
    assert prepared.sources[0].records == 3
    assert prepared.sources[0].ignored == {"n": 3}


def test_a_stream_of_chats_learns_their_answers(tmp_path: Path, hub: dict[str, Any]) -> None:
    hub["stream"] = FakeStream([chat("hello", "well")])
    prepared = prepare([stream(limit=9, field="messages")], vocabulary(tmp_path / "words"), length=64)
    assert 0 < prepared.sources[0].trainable < prepared.sources[0].tokens


@pytest.mark.usefixtures("hub")
def test_an_endless_stream_goes_on_from_its_state(tmp_path: Path) -> None:
    words = vocabulary(tmp_path / "words")
    whole = StreamedRows(stream(), words, length=13)
    expected = whole.batch(0, 40)  # several times through the data
    assert (expected.documents[:, :12] != PADDING).all()
    first = StreamedRows(stream(), words, length=13)
    for taken in (1, 7, 20):
        first.batch(first.state_dict()["row"], taken)
        state = json.loads(json.dumps(first.state_dict()))
        second = StreamedRows(stream(), words, length=13)
        second.load_state_dict(state)
        start = state["row"]
        part = second.batch(start, 5)
        assert torch.equal(part.ids, expected.ids[start : start + 5])
    with pytest.raises(ParameterError, match="cannot go back"):
        first.batch(0, 1)


@pytest.mark.usefixtures("hub")
def test_a_process_may_leave_out_the_rows_of_others(tmp_path: Path) -> None:
    words = vocabulary(tmp_path / "words")
    whole = StreamedRows(stream(), words, length=13).batch(0, 8)
    mine = StreamedRows(stream(), words, length=13)
    assert torch.equal(mine.batch(2, 2).ids, whole.ids[2:4])
    assert torch.equal(mine.batch(6, 2).ids, whole.ids[6:8])


def test_what_a_stream_cannot_do_is_refused(tmp_path: Path, hub: dict[str, Any]) -> None:
    words = vocabulary(tmp_path / "words")
    with pytest.raises(ParameterError, match="must be the only data"):
        prepare([stream(), stream(limit=3)], words, length=16)
    with pytest.raises(ParameterError, match="can only be packed 'in-order', got 'best-fit'"):
        prepare([stream()], words, length=16)
    assert isinstance(prepare([stream()], words, length=16, packing="in-order").rows, StreamedRows)
    hub["stream"] = FakeStream([{"text": "a"}] * 3, fails_at=1)
    with pytest.raises(DataError, match=r"some/set, record 2: cannot be read \(gzip is damaged\)"):
        prepare([stream(limit=3)], words, length=16)
    hub["stream"] = FakeStream([])
    with pytest.raises(DataError, match="no token to learn from"):
        StreamedRows(stream(), words, length=16).batch(0, 1)


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anyorder\[data\]'"):
        prepare([stream(limit=3)], vocabulary(tmp_path / "words"), length=16)


def test_the_manifest_counts_what_was_left_out_and_what_nothing_reads(tmp_path: Path) -> None:
    """A field that nothing reads is told by how many records have it."""
    path = write_lines(tmp_path / "texts.jsonl", [{"text": "one", "note": 1}, {"text": "two", "note": 2}])
    prepared = prepare([JsonlData(kind="jsonl", path=path)], vocabulary(tmp_path / "words"), length=8)
    (source,) = prepared.manifest()["sources"]
    assert source["ignored"] == {"note": 2}
    write_manifest(prepared.manifest(), tmp_path)
    check_manifest(prepared.manifest(), tmp_path)
