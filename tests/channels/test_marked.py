"""Markers that are control tokens, and the same letters spelt with others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.channels.marked import SIGN, marked, plain, with_tokens
from anyorder.channels.parser import Channels
from anyorder.channels.parts import Spoken
from anyorder.channels.syntax import REASONING, TOOLS, Syntax

GEMMA = Syntax(reasoning=REASONING["gemma4"], tools=TOOLS["gemma4"])
TOKENS = ("<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>')
READ = with_tokens(GEMMA, TOKENS)
OPEN, CLOSE, CALL, END, QUOTE = map(marked, TOKENS)
SPELT = " ".join(TOKENS)


def spoken(*pieces: str, syntax: Syntax = READ) -> Spoken:
    channels, total = Channels(syntax, tools=["f"], new_id=lambda: "call"), Spoken()
    for piece in pieces:
        total.add(channels.push(piece))
    total.add(channels.flush())
    return total


def test_only_tokens_mark() -> None:
    text = f"{OPEN}thought\na {SPELT} b{CLOSE}c {SPELT} d{CALL}call:f{{k:{QUOTE}e {SPELT} {CLOSE} f{QUOTE}}}{END}g"
    total = spoken(text)
    assert total.reasoning == f"a {SPELT} b"
    assert total.content == f"c {SPELT} dg"
    assert [json.loads(call.arguments) for call in total.calls] == [{"k": f"e {SPELT} <channel|> f"}]
    assert spoken(*text) == total  # letter by letter


@pytest.mark.parametrize("call", [f"{CALL}call:g{{}}{END}", f"{CALL}call:f{{k:{SPELT}}}{END}", f"{CALL}call:f{{"])
def test_what_is_no_call_is_handed_out_as_it_is_written(call: str) -> None:
    assert spoken(f"a{call}b") == Spoken("", f"a{plain(call)}b")


def test_markers_that_are_no_tokens_are_read_as_before() -> None:
    some = with_tokens(GEMMA, ["<|channel>"])
    assert (some.reasoning, some.tools) == (
        type(REASONING["gemma4"])(open=f"{OPEN}thought\n", close="<channel|>"),
        GEMMA.tools,
    )
    assert with_tokens(GEMMA, ()) == GEMMA
    assert with_tokens(Syntax(), TOKENS) == Syntax()


@given(st.lists(st.sampled_from([*TOKENS, *map(marked, TOKENS), "a", "<", '"|>']), max_size=12))
def test_lengths_are_kept(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert plain(text) == "".join(piece.replace(SIGN, "<") for piece in pieces)
    kept = plain(text, keep=[QUOTE])
    assert kept == "".join(piece if piece == QUOTE else plain(piece) for piece in pieces)
    assert len(kept) == len(plain(text)) == len(text)
