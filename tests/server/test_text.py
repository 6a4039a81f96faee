"""Text that only grows: whatever comes in whatever pieces, the pieces together are the text of the whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from anyorder.events import Committed, Event, Finished, Opened, Started
from anyorder.server.streams.answer import Answer
from anyorder.server.streams.snapshots import OPEN, progress, snapshot
from anyorder.server.streams.text import Detokenizer, StopFilter

TEXTS = st.text(alphabet="aé日🌍 \n\ufffd", max_size=12)


def bytes_to_text(ids: Sequence[int]) -> str:
    return bytes(token for token in ids if token < 256).decode(errors="replace")


@functools.cache
def metaspace() -> Tokenizer:
    """Words with a mark for blanks, and byte fallback: decoding strips one blank and joins runs of bytes."""
    words = ["<unk>", "▁", "▁a", "b", "▁é", "日"] + [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tokenizer


@functools.cache
def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({word: index for index, word in enumerate(alphabet)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def cut(items: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    pieces: list[Sequence[int]] = []
    start = 0
    for size in sizes:
        pieces.append(items[start : start + size])
        start += size
    return [*pieces, items[start:]]


BYTES = st.one_of(
    TEXTS.map(lambda text: list(text.encode())),
    st.lists(
        st.sampled_from([0x61, 0x80, 0xC3, 0xA9, 0xE6, 0x97, 0xA5, 0xF0, 0x9F, 0x8C, 0x8D, 0xFF, 300]), max_size=12
    ),
)


@given(BYTES, st.lists(st.integers(0, 4), max_size=8))
def test_pieces_of_bytes_are_the_whole(ids: list[int], sizes: list[int]) -> None:
    detokenizer = Detokenizer(bytes_to_text)
    pieces = [detokenizer.push(piece) for piece in cut(ids, sizes)]
    assert "".join([*pieces, detokenizer.flush()]) == bytes_to_text(ids)
    assert detokenizer.read == len(ids)


WORDS = (1, 2, 3, 4, 5, *(6 + byte for byte in (0x61, 0xC3, 0xA9, 0xF0, 0x9F, 0x8C, 0x8D)))


@example([6 + 0x61, 6 + 0xC3, 3], [1, 1])
@given(st.lists(st.sampled_from(WORDS), max_size=12), st.lists(st.integers(0, 3), max_size=8))
def test_pieces_are_the_whole_with_byte_fallback(ids: list[int], sizes: list[int]) -> None:
    """Of a run of bytes no text is sure before its end: a bad byte in it changes all of its characters."""
    decode = metaspace().decode
    detokenizer = Detokenizer(decode, frozenset(range(6, 262)))
    pieces = [detokenizer.push(piece) for piece in cut(ids, sizes)]
    assert "".join([*pieces, detokenizer.flush()]) == decode(ids)


@given(st.lists(st.integers(0, 255), max_size=16), st.lists(st.integers(0, 4), max_size=8))
def test_pieces_are_the_whole_with_a_byte_level_vocabulary(ids: list[int], sizes: list[int]) -> None:
    decode = byte_level().decode
    detokenizer = Detokenizer(decode)
    pieces = [detokenizer.push(piece) for piece in cut(ids, sizes)]
    assert "".join([*pieces, detokenizer.flush()]) == decode(ids)


def test_a_character_is_not_shown_before_it_is_complete() -> None:
    detokenizer = Detokenizer(bytes_to_text)
    assert [detokenizer.push([byte]) for byte in "a🌍".encode()] == ["a", "", "", "", "🌍"]


def before_stop(text: str, stops: Sequence[str]) -> str:
    """The slow, obvious reading: letter by letter, until the text ends in a stop string."""
    for end in range(1, len(text) + 1):
        found = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: end - max(found)]
    return text


STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=4)


@settings(max_examples=300)
@given(st.lists(st.text(alphabet="ab", max_size=5), max_size=8), STOPS)
def test_no_part_of_a_stop_string_gets_through(pieces: list[str], stops: list[str]) -> None:
    filtering = StopFilter(stops)
    shown = ""
    for piece in pieces:
        shown += filtering.push(piece)
        assert before_stop("".join(pieces), stops).startswith(shown)
    assert shown + filtering.flush() == before_stop("".join(pieces), stops)


@given(st.lists(st.text(alphabet="ab", max_size=5), max_size=8), STOPS)
def test_nothing_is_held_back_without_need(pieces: list[str], stops: list[str]) -> None:
    """What is held back could still become a stop string."""
    filtering = StopFilter(stops)
    shown = "".join(filtering.push(piece) for piece in pieces)
    held = "".join(pieces)[len(shown) :]
    assert filtering.hit or not held or any(stop.startswith(held) for stop in stops)


STOP_ID = 256


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Event], list[int]]:
    """The events of an answer whose slots are decided in any order, and its ids."""
    text = draw(TEXTS).encode()
    ids = [*text, STOP_ID, *draw(st.lists(st.integers(97, 99), max_size=3))] if draw(st.booleans()) else [*text, 97]
    slots = [slot + 2 for slot in draw(st.permutations(range(len(ids))))]
    events: list[Event] = [Started(0, (1, 1), (), 2), Opened(0, 2, 2 + len(ids))]
    index = 0
    while slots:
        taken, slots = slots[: (size := draw(st.integers(1, 4)))], slots[size:]
        values = tuple(ids[slot - 2] for slot in taken)
        events.append(Committed(0, index, tuple(taken), values, (0.5,) * len(values)))
        index += 1
    return [*events, Finished(0, "stop" if STOP_ID in ids else "length", index, 99)], ids


@settings(max_examples=200)
@given(streams(), st.lists(st.sampled_from(["é", "aa", "日🌍", " \n", "🌍"]), max_size=3))
def test_an_answer_in_any_order_only_grows(stream: tuple[list[Event], list[int]], stops: list[str]) -> None:
    events, ids = stream
    kept = ids[: ids.index(STOP_ID)] if STOP_ID in ids else ids
    whole = before_stop(bytes_to_text(kept), stops)
    answer = Answer(bytes_to_text, (STOP_ID,), stops, with_tokens=True)
    shown, tokens = "", 0
    for event in events:
        delta = answer.add(event)
        shown += delta.text
        tokens += len(delta.tokens)
        assert shown == answer.text
        assert whole.startswith(shown)
        assert snapshot(answer).startswith(shown)
        assert 0.0 <= progress(answer, len(ids)) <= 1.0
        if delta.finish_reason:
            break
    assert shown == whole == snapshot(answer)
    assert answer.finish_reason == ("stop" if STOP_ID in ids or whole != bytes_to_text(kept) else "length")
    assert tokens == answer.delivered
    assert len(bytes_to_text(kept[:tokens])) >= len(whole)
    assert tokens == 0 or len(bytes_to_text(kept[: tokens - 1])) <= len(whole)
    assert progress(answer, len(ids)) == 1.0
    if not answer.stopped:
        assert answer.wasted == len(ids) - len(kept) - (STOP_ID in ids)


def test_a_snapshot_shows_what_is_open_and_the_text_does_not() -> None:
    answer = Answer(bytes_to_text, (STOP_ID,))
    answer.add(Started(0, (1,), (), 1))
    answer.add(Opened(0, 1, 9))
    delta = answer.add(Committed(0, 0, (1, 3, 4), (97, 98, 99), (1.0, 1.0, 1.0)))
    assert (delta.text, snapshot(answer)) == ("a", f"a{OPEN}bc")
    assert progress(answer, 8) == pytest.approx(3 / 8)
    answer.add(Committed(0, 1, (6,), (STOP_ID,), (1.0,)))
    assert progress(answer, 8) == pytest.approx(4 / 6)


def test_what_fills_a_hole_is_the_answer() -> None:
    answer = Answer(bytes_to_text, (STOP_ID,), hole=True, with_tokens=True)
    answer.add(Started(0, (120, 0, 0, 121), (1, 2), 4))
    assert answer.add(Committed(0, 0, (2,), (98,), (1.0,))).text == ""
    delta = answer.add(Committed(0, 1, (1,), (97,), (0.5,)))
    assert (delta.text, [token.logprob for token in delta.tokens]) == ("ab", [math.log(0.5), 0.0])
    assert answer.add(Finished(0, "length", 2, 8)).finish_reason == "length"
    assert (answer.text, answer.delivered, answer.wasted) == ("ab", 2, 0)
