"""Reasoning and tool calls in text that comes in any pieces: what is read, what stays text, what is held back."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyorder.channels.parser import Channels
from anyorder.channels.parts import CallArguments, CallBegun, Content, Reasoning, Spoken
from anyorder.channels.syntax import REASONING, TOOLS, Syntax, syntax_of

THINK = Syntax(reasoning=REASONING["think"], tools=TOOLS["hermes"])
GEMMA = Syntax(reasoning=REASONING["gemma4"], tools=TOOLS["gemma4"])
NAMES = ("f", "get_weather")
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
GEMMA_CALL = '<|tool_call>call:f{a:1,s:<|"|>x, {y}<|"|>,l:[true,null,-2.5],o:{k:<|"|><|"|>}}<tool_call|>'


def channels(syntax: Syntax, **options: Any) -> Channels:
    numbers = itertools.count()
    defaults: dict[str, Any] = {"tools": NAMES, "new_id": lambda: f"call_{next(numbers)}"}
    return Channels(syntax, **{**defaults, **options})


def spoken(syntax: Syntax, *pieces: str, **options: Any) -> Spoken:
    parser, total = channels(syntax, **options), Spoken()
    for piece in pieces:
        total.add(parser.push(piece))
    total.add(parser.flush())
    return total


def calls(total: Spoken) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in total.calls]


def test_reasoning_and_answer_are_told_apart() -> None:
    total = spoken(THINK, "<think>\nLet me see.\n</think>\n\nIt is 4.\n")
    assert (total.reasoning, total.content) == ("Let me see.", "It is 4.\n")
    assert spoken(GEMMA, "<|channel>thought\nLet me see.\n<channel|>It is 4.").reasoning == "Let me see."
    assert spoken(THINK, "see </think> 4", thinking=True) == Spoken("see", "4")
    assert spoken(THINK, "<think>\n\n</think>\n\n4") == Spoken("", "4")


def test_reasoning_only_begins_where_an_answer_does() -> None:
    text = "Write <think> and </think> like this."
    assert spoken(THINK, text) == Spoken("", text)
    assert spoken(THINK, "  <thin") == Spoken("", "  <thin")
    assert spoken(THINK, "<think>never closed") == Spoken("never closed", "")


def test_calls_are_read_with_and_without_words_around() -> None:
    total = spoken(THINK, f'Sure.\n{CALL}\n<tool_call>[{{"name": "get_weather"}}]</tool_call>\nDone.')
    assert calls(total) == [("f", {"a": 1}), ("get_weather", {})]
    assert total.content == "Sure.Done."
    assert [call.id for call in total.calls] == ["call_0", "call_1"]
    assert spoken(THINK, f"  {CALL}\n") == Spoken("", "", total.calls[:1])
    assert calls(spoken(GEMMA, GEMMA_CALL)) == [("f", {"a": 1, "s": "x, {y}", "l": [True, None, -2.5], "o": {"k": ""}})]


def test_a_closing_marker_inside_a_string_closes_nothing() -> None:
    body = json.dumps({"name": "f", "arguments": {"text": 'say "</tool_call>" \\'}})
    assert calls(spoken(THINK, f"<tool_call>{body}</tool_call>")) == [("f", {"text": 'say "</tool_call>" \\'})]
    total = spoken(GEMMA, '<|tool_call>call:f{t:<|"|><tool_call|><|"|>}<tool_call|>')
    assert calls(total) == [("f", {"t": "<tool_call|>"})]


MALFORMED = [
    "<tool_call>f(1)</tool_call>",
    '<tool_call>{"name": "f", "arguments": {"a": }}</tool_call> and more',
    '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": "a"}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>',
    '<tool_call>{"name": "f", "parameters": {}}</tool_call>',
    '<tool_call>{"name": "f", "arguments": {}}',
    '<tool_call>[{"name": "f"}, 7]</tool_call>',
    "a \n<tool_call> \n",
    "<tool_cal",
    "<tool_call>" + "[" * 5000 + "</tool_call>",
]
GEMMA_MALFORMED = [
    "<|tool_call>call:f{a:1<tool_call|>",
    "<|tool_call>call:f{a}<tool_call|>",
    "<|tool_call>call:f{a:b}<tool_call|>",
    "<|tool_call>call:f{a:1}{}<tool_call|>",
    "<|tool_call>call:f{a:1,a:2}<tool_call|>",
    "<|tool_call>call:f[1]<tool_call|>",
    "<|tool_call>call:g{}<tool_call|>",
    "<|tool_call>call:f{a:" + "[" * 5000 + "<tool_call|>",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_calls_stay_text(text: str) -> None:
    assert spoken(THINK, text) == Spoken("", text)


@pytest.mark.parametrize("text", GEMMA_MALFORMED)
def test_malformed_calls_of_gemma_stay_text(text: str) -> None:
    assert spoken(GEMMA, text) == Spoken("", text)


def test_a_call_behind_a_malformed_one_counts() -> None:
    total = spoken(THINK, f"<tool_call>f(1)</tool_call>{CALL}")
    assert (total.content, calls(total)) == ("<tool_call>f(1)</tool_call>", [("f", {"a": 1})])


def test_calls_are_text_where_there_are_no_tools_and_inside_reasoning() -> None:
    assert spoken(THINK, CALL, tools=()) == Spoken("", CALL)
    assert spoken(THINK, f"<think>{CALL}</think>") == Spoken(CALL, "")


def test_an_answer_may_end_behind_its_first_call() -> None:
    parser, total = channels(THINK, single=True), Spoken()
    total.add(parser.push(f"a{CALL} b{CALL}"))
    total.add([*parser.push("c"), *parser.flush()])
    assert (len(total.calls), total.content, parser.ended) == (1, "a", 1 + len(CALL))


def test_half_a_surrogate_is_written_so_that_it_can_be_sent() -> None:
    total = spoken(THINK, '<tool_call>{"name": "f", "arguments": {"a": "\\ud83d"}}</tool_call>')
    assert total.calls[0].arguments == '{"a": "\\ud83d"}'


def test_spans_cover_the_reasoning_and_its_markers() -> None:
    parser = channels(THINK)
    parser.push(" <think>ab</think> c")
    assert parser.spans == [(0, 18)]
    parser = channels(THINK, thinking=True)
    parser.push("ab</th")
    assert (parser.spans, parser.is_reasoning) == ([(0, 2)], True)


WORDS = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "f", "arguments": {"a": "', '"}}', "f", " ", "\n",
    "<", "</", "é", "[", "]", "{}", CALL,
)  # fmt: skip
GEMMA_WORDS = (
    "<|channel>thought\n", "<channel|>", "<|tool_call>", "<tool_call|>", "call:f{", "a:", '<|"|>', "1", ",", "}", " ",
    "<|", "é", "\n", GEMMA_CALL,
)  # fmt: skip


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Syntax, str, list[str]]:
    """A text of markers and words, and the same in pieces."""
    syntax, words = draw(st.sampled_from([(THINK, WORDS), (GEMMA, GEMMA_WORDS)]))
    text = "".join(draw(st.lists(st.sampled_from(words), max_size=10)))
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return syntax, text, [text[a:b] for a, b in itertools.pairwise([0, *places, len(text)])]


@settings(max_examples=400)
@example((THINK, CALL, list(CALL)), False, False)
@example((GEMMA, GEMMA_CALL, list(GEMMA_CALL)), False, True)
@given(cuts(), st.booleans(), st.booleans())
def test_pieces_read_like_the_whole(case: tuple[Syntax, str, list[str]], thinking: bool, single: bool) -> None:
    syntax, text, pieces = case
    whole = spoken(syntax, text, thinking=thinking, single=single)
    assert spoken(syntax, *pieces, thinking=thinking, single=single) == whole
    parsers = [channels(syntax, thinking=thinking, single=single) for _ in range(2)]
    for parser, fed in zip(parsers, ([text], pieces), strict=True):
        for piece in fed:
            parser.push(piece)
        parser.flush()
    assert parsers[0].spans == parsers[1].spans
    assert parsers[0].ended == parsers[1].ended


@settings(max_examples=200)
@given(cuts())
def test_nothing_is_lost_or_invented(case: tuple[Syntax, str, list[str]]) -> None:
    """Every letter of the parts stands in the text, in its order; without calls only markers and blanks are gone."""
    syntax, text, pieces = case
    parser = channels(syntax)
    parts = [part for piece in pieces for part in parser.push(piece)] + parser.flush()
    at = 0
    for part in parts:
        if isinstance(part, Reasoning | Content):
            for word in part.text.split():
                at = text.index(word, at) + len(word)
    if not any(isinstance(part, CallBegun | CallArguments) for part in parts):
        shown = "".join(part.text for part in parts if isinstance(part, Reasoning | Content))
        kept = text
        assert syntax.reasoning is not None
        for marker in (syntax.reasoning.open, syntax.reasoning.close):
            if marker not in shown:
                kept = kept.replace(marker, "")
        assert len(shown.split()) <= len(kept.split()) + 1
        if not parser.spans:
            assert shown == text


@pytest.mark.parametrize(
    ("family", "template", "reasoning", "tools", "prompted"),
    [
        ("qwen3", "{% if tools %}<tool_call>{% endif %}{% if enable_thinking %}</think>{% endif %}", "think", "hermes",
         False),
        ("sdar", "{%- if tools %}<tool_call>{% endif %}", None, "hermes", False),
        ("gemma", "{% if tools %}<|tool_call>{% endif %}<|channel>thought <channel|>", "gemma4", "gemma4", False),
        ("qwen3", "{% if tools %}<tool_call><function=x>{% endif %}", None, None, False),
        ("llama", "{% if tools is defined %}{{ tools | tojson }}{% endif %}", None, None, False),
        ("llama", "{{ messages }}", None, "hermes", True),
        ("llama", None, None, None, True),
        ("llada", "{{ messages }}", None, None, True),
        ("dream", "{% if tools %}<tool_call>{% endif %}", None, None, False),
        ("sdar", "{{ messages }}", None, None, True),
    ],
)  # fmt: skip
def test_which_model_writes_how(
    family: str, template: str | None, reasoning: str | None, tools: str | None, prompted: bool
) -> None:
    expected = Syntax(
        reasoning=REASONING[reasoning] if reasoning else None, tools=TOOLS[tools] if tools else None, prompted=prompted
    )
    assert syntax_of(family, template) == expected


def test_a_setting_goes_before_what_the_template_shows() -> None:
    template = "{% if tools %}<tool_call>{% endif %}</think>"
    assert syntax_of("qwen3", template, reasoning="none", tools="gemma4") == Syntax(tools=TOOLS["gemma4"])
    assert syntax_of("dream", template, tools="hermes").tools == TOOLS["hermes"]
