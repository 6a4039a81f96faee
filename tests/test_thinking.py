"""Reasoning from Python: the template turns it on and off, and what the model reasons is no part of its answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.scripted import scripted_model
from tests.gemma_talk import TEMPLATE, backend, forced, gemma_tokenizer, talking_gemma
from tests.server.channels.speaking import PLAIN, speaking
from tokenizers import decoders

import anyorder
from anyorder.channels.marked import SIGN, plain
from anyorder.channels.syntax import REASONING, Syntax
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished, Committed, Finished, Revised, Started
from anyorder.generation import Fold
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.tokenizer_files import TokenizerFiles
from anyorder.thinking import Reader, decode_marked, marker_tokens

SYSTEM = {"role": "system", "content": "be brief."}
WHY = {"role": "user", "content": "why?"}
THOUGHT = {"role": "assistant", "content": "so.", "reasoning_content": "let me see"}
SPOKEN = "<|channel>thought\nlet me see\n<channel|>it is so."
CHATS = [[WHY], [SYSTEM, WHY], [WHY, THOUGHT, WHY], [SYSTEM, WHY, THOUGHT, {"role": "user", "content": " how? \n"}]]
ON = "{% if enable_thinking %}on{% endif %}"
ALWAYS = (
    "{% for message in messages %}{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<think>{% endif %}{# until </think> #}"
)


def prompt_ids(messages: Any, thinking: bool | None) -> list[int]:
    return list(anyorder.generate(talking_gemma(), messages, thinking=thinking, max_new_tokens=1).prompt_ids)


@pytest.mark.parametrize("messages", CHATS)
@pytest.mark.parametrize("thinking", [True, False, None])
def test_prompts_are_those_of_transformers(messages: Any, thinking: bool | None) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend(), chat_template=TEMPLATE, bos_token="<bos>", eos_token="<turn|>"
    )
    variables = {} if thinking is None else {"enable_thinking": thinking}
    text = theirs.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **variables)
    assert ("<|think|>" in text, text.endswith("<channel|>")) == (thinking is True, thinking is not True)
    assert "see" not in text
    assert prompt_ids(messages, thinking) == theirs(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("mode", ["block", "causal"])
@pytest.mark.parametrize("thinking", [True, False, None])
def test_both_modes_of_a_model_are_read_by_channel(mode: Any, thinking: bool | None) -> None:
    model = talking_gemma()
    given = forced(model, SPOKEN)
    how: dict[str, Any] = {"mode": mode, "forced": given, "max_new_tokens": len(given) + 8}
    answer = anyorder.generate(model, [WHY], thinking=thinking, **how)
    assert answer.reasoning == "let me see"
    assert answer.text.startswith("it is so.")
    assert answer.ids[: len(given) - 1] == tuple(given.values())[:-1]  # the ids stay whole
    assert answer.ids[answer.reasoning_tokens - 1] == gemma_tokenizer().token_id("<channel|>")
    batch = anyorder.generate_batch(model, [[WHY], [SYSTEM, WHY]], thinking=thinking, **how)
    assert [one.reasoning for one in batch] == ["let me see"] * 2
    data = answer.as_dict()
    assert (data["reasoning"], data["text"]) == (answer.reasoning, answer.text)


def test_text_and_ids_are_not_read_by_channel() -> None:
    model = talking_gemma()
    given = forced(model, SPOKEN)
    ids = prompt_ids([WHY], True)
    for prompt in ("why?", ids):
        answer = anyorder.generate(model, prompt, mode="causal", forced=given, max_new_tokens=64)
        assert (answer.text, answer.reasoning) == ("thought\nlet me see\nit is so.", None)
        with pytest.raises(ParameterError, match="`thinking` is a matter of the chat template"):
            anyorder.generate(model, prompt, thinking=True)
    with pytest.raises(ParameterError, match="no list of messages"):
        anyorder.generate_batch(model, [[WHY], "why?"], thinking=False)
    with pytest.raises(ParameterError, match="no list of messages"):
        anyorder.infill(model, ["a", anyorder.Hole(1)], thinking=True)


def test_what_cannot_be_honoured_is_refused() -> None:
    refused = {
        PLAIN: (True, r"`thinking`: speaking \(family llama\) has a chat template without a reasoning channel"),
        PLAIN + ON: (False, "without a reasoning channel"),
        ALWAYS: (False, r"speaking \(family llama\) always reasons, its chat template has no switch"),
    }
    for template, (thinking, message) in refused.items():
        with pytest.raises(ParameterError, match=message) as caught:
            anyorder.stream(speaking("x", template), [WHY], thinking=thinking)
        assert caught.value.param == "thinking"
    with pytest.raises(ParameterError, match="must be True, False or None, got 'on'"):
        anyorder.stream(talking_gemma(), [WHY], thinking="on")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ParameterError, match="without a reasoning channel"):
        anyorder.ChatSession(scripted_model(), thinking=True).send("hi")


THINKS: list[tuple[str, str | None, str]] = [
    ("<think>\nI see.\n</think>\n\nSo.", "I see.", "So."),
    ("<think>\n\n</think>\n\nSo.", None, "So."),
    ("<think>I see, but", "I see, but", ""),
    ("So. <think>No.</think>", None, "So. <think>No.</think>"),
    ("So.", None, "So."),
]


@pytest.mark.parametrize(("said", "reasoning", "text"), THINKS)
def test_think_markers_that_are_no_tokens(said: str, reasoning: str | None, text: str) -> None:
    answer = anyorder.generate(speaking(said), [WHY], max_new_tokens=60)
    assert (answer.reasoning, answer.text) == (reasoning, text)
    assert bytes(answer.ids).decode() == said
    end = said.find("</think>") + len("</think>") if "</think>" in said else len(said)
    assert answer.reasoning_tokens == (end if said.startswith("<think>") else 0)


def test_a_channel_that_the_template_has_opened() -> None:
    answer = anyorder.generate(speaking("I see.</think>So.", ALWAYS), [WHY], thinking=True, max_new_tokens=60)
    assert (answer.reasoning, answer.text) == ("I see.", "So.")


def test_a_thought_that_the_length_cuts() -> None:
    model = talking_gemma()
    begun = dict(enumerate(own(SPOKEN)[:14]))
    answer = anyorder.generate(model, [WHY], thinking=True, forced=begun, max_new_tokens=14)
    assert answer.finish_reason == "length"
    assert answer.text == ""
    assert answer.reasoning == "let m"
    assert answer.reasoning_tokens == len(answer.ids) == 14


def reader(*, begun: bool = False) -> Reader:
    return Reader(gemma_tokenizer(), Syntax(reasoning=REASONING["gemma4"]), begun=begun)


def own(said: str) -> list[int]:
    return backend().encode(said, add_special_tokens=False).ids


def test_markers_that_are_only_spelt_are_text() -> None:
    spelt = gemma_tokenizer().encode_text
    said = reader().read([*own("<|channel>thought\n"), *spelt("a <channel|> b"), *own("<channel|>so.")])
    assert (said.reasoning, said.text) == ("a <channel|> b", "so.")
    said = reader().read(spelt(SPOKEN))
    assert (said.reasoning, said.text, said.reasoning_tokens) == (None, SPOKEN, 0)
    assert reader(begun=True).read([*own("a<channel|>"), *spelt("<channel|>")]).text == "<channel|>"


DECODERS = [
    decoders.Sequence([decoders.Replace("_", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    decoders.ByteLevel(),
    decoders.Fuse(),
]


@pytest.mark.parametrize("decoder", DECODERS)
@given(ids=st.lists(st.integers(0, len(backend().get_vocab()) - 1), max_size=8))
def test_marked_text_is_the_text_with_its_markers(decoder: Any, ids: list[int]) -> None:
    made = backend()
    made.decoder = decoder
    tokenizer = Tokenizer(TokenizerFiles(backend=made, named={}, chat_template=None))
    markers = marker_tokens(tokenizer, Syntax(reasoning=REASONING["gemma4"]))
    assert set(markers.values()) == {"<|channel>", "<channel|>"}
    text = decode_marked(tokenizer, ids, markers)
    assert plain(text) == tokenizer.decode(ids, shown=frozenset(markers))
    assert text.count(SIGN) == sum(token in markers for token in ids)


def test_a_thought_that_later_passes_revise_is_read_as_it_ends() -> None:
    first, last = own("so. it is.") + own("<turn|>"), own("<|channel>thought\nno<channel|>so.")[:23]
    length = len(last)
    draft = (first * 3)[:length]
    fold = Fold(gemma_tokenizer().decode, (), lambda: 0.0, 0.0, reader().read)
    slots, sure = tuple(range(1, length + 1)), (0.5,) * length
    fold.add(Started(0, (0, *[9] * length), slots, 1))
    fold.add(Committed(0, 0, slots, tuple(draft), sure, provisional=True))
    fold.add(Revised(0, 1, slots, tuple(last), sure, provisional=True))
    fold.add(BlockFinished(0, 0, 1, length + 1, 2))
    fold.add(Finished(0, "length", 2, length))
    times = {"model_s": 0.0, "policy_s": 0.0, "other_s": 0.0, "cache": "none", "exact": True}
    result = fold.result(fold.figures(**times))
    assert (result.reasoning, result.text) == ("no", "so.")


def test_a_conversation_is_what_the_template_makes_of_it() -> None:
    model = talking_gemma()
    given = forced(model, SPOKEN)
    how: dict[str, Any] = {"mode": "causal", "forced": given, "max_new_tokens": len(given) + 8}
    chat = anyorder.ChatSession(model, system="be brief.", thinking=True, **how)
    asked = [SYSTEM]
    for question in ("why?", "how?", "who?"):
        asked = [*asked, {"role": "user", "content": question}]
        alone = anyorder.generate(model, asked, thinking=chat.thinking, **how)
        turn = chat.send(question)
        answer = turn.generations()[0]
        assert (answer.prompt_ids, answer.ids, answer.reasoning) == (alone.prompt_ids, alone.ids, "let me see")
        if len(asked) > 2:
            assert turn.stats().positions < alone.stats.positions  # what the turns share is not computed again
        said = {"role": "assistant", "content": alone.text, "reasoning_content": "let me see"}
        asked = [*asked, said]
        assert chat.messages == asked
    chat.thinking = False
    answer = chat.send("and?").generations()[0]
    assert model.tokenizer is not None
    assert "<|think|>" not in model.tokenizer.decode(list(answer.prompt_ids), skip_special=False)
    assert "see" not in answer.prompt_text
