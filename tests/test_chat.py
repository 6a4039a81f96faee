"""A conversation that keeps its keys and values says what one without any would, and computes less."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.talk import talking

import anyorder
from anyorder import ChatSession
from anyorder.chat import Turn
from anyorder.errors import ContextError, ParameterError

QUESTIONS = ["8 9 10 11", "12", "13 14 15 16 17 18 19", "8"]
# control tokens are banned so that an answer reads back as the tokens it came from
PARAMS: dict[str, Any] = {"max_new_tokens": 7, "banned_ids": (0, 1, 3, 4, 5, 6)}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("llama", {"temperature": 1.0, "seed": 3}),
    ("llama", {"mode": "block", "block_length": 4}),
    ("llama", {"draft": "lookup"}),
    ("llama", {"draft": "ngram", "draft_length": 12}),
    ("sdar", {}),
    ("fast_dllm_v2", {"threshold": 0.1}),
    ("fast_dllm_v2", {"cache": "sub_block", "sub_block_length": 4}),
    ("llada", {}),
    ("dream", {"cache": "dual", "block_length": 4}),
]


def session(family: str, **params: Any) -> ChatSession:
    return ChatSession(talking(family), **{**PARAMS, **params})


def ask(chat: ChatSession, question: str) -> anyorder.Generation:
    return chat.send(question).generations()[0]


@pytest.mark.parametrize(("family", "params"), MODELS)
def test_every_turn_is_the_answer_to_the_whole_conversation(family: str, params: dict[str, Any]) -> None:
    chat, messages = session(family, **params), []
    for question in QUESTIONS:
        messages = [*messages, {"role": "user", "content": question}]
        alone = anyorder.generate(talking(family), messages, **{**PARAMS, **params})
        answer = ask(chat, question)
        assert answer.ids == alone.ids
        assert answer.text == alone.text
        messages = [*messages, {"role": "assistant", "content": answer.text}]
        assert chat.messages == messages


@pytest.mark.parametrize(("family", "params"), [m for m in MODELS if m[0] not in ("llada", "dream")])
def test_what_was_computed_is_not_computed_again(family: str, params: dict[str, Any]) -> None:
    chat = session(family, **params)
    for number, question in enumerate(QUESTIONS):
        alone = anyorder.generate(
            talking(family), [*chat.messages, {"role": "user", "content": question}], **{**PARAMS, **params}
        )
        kept = ask(chat, question)
        assert number == 0 or kept.stats.positions < alone.stats.positions


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_a_model_without_an_exact_cache_keeps_nothing(family: str) -> None:
    """Columns of a bidirectional canvas have seen what came behind them."""
    chat = session(family, cache="dual", block_length=4)
    ask(chat, QUESTIONS[0])
    assert chat.stored_keys == []


def test_an_uncached_session_keeps_nothing_either() -> None:
    chat = session("llama", cache="none", stop_ids=())
    first, second = (ask(chat, question) for question in QUESTIONS[:2])
    assert chat.stored_keys == []
    assert second.stats.positions > first.stats.positions


@pytest.mark.parametrize("read", [0, 1, 4, 6])
@pytest.mark.parametrize("family", ["llama", "sdar", "fast_dllm_v2"])
def test_an_answer_given_up_midway_leaves_no_trace(family: str, read: int) -> None:
    chat, clean = session(family, stop_ids=()), session(family, stop_ids=())
    for each in (chat, clean):
        ask(each, QUESTIONS[0])
    before = list(chat.messages)
    given_up = chat.send("19 18 17 16 15 14 13 12")
    for _ in range(read):
        next(given_up)
    assert chat.messages == before
    for question in QUESTIONS[1:]:
        assert ask(chat, question).ids == ask(clean, question).ids
    assert chat.messages == clean.messages


def test_an_answer_given_up_cannot_be_taken_up_again() -> None:
    """Its columns were overwritten by the next one."""
    chat = session("llama")
    ask(chat, QUESTIONS[0])
    given_up = chat.send(QUESTIONS[1])
    next(given_up)
    ask(chat, QUESTIONS[2])
    messages = list(chat.messages)
    with pytest.raises(ParameterError, match="session has moved on and this answer was given up; send its question"):
        next(given_up)
    with pytest.raises(ParameterError, match="session has moved on"):
        given_up.generations()
    assert chat.messages == messages


def test_reading_a_finished_answer_again_does_not_turn_back_the_conversation() -> None:
    chat = session("llama")
    first: Turn = chat.send(QUESTIONS[0])
    answer = first.generations()[0]
    ask(chat, QUESTIONS[1])
    assert first.generations()[0] == answer
    assert len(chat.messages) == 4


def test_a_reset_forgets_everything_but_the_system_message() -> None:
    chat = ChatSession(talking("llama"), system="20 21", **PARAMS)
    first = ask(chat, QUESTIONS[0])
    assert chat.messages[0] == {"role": "system", "content": "20 21"}
    chat.reset()
    assert chat.messages == [{"role": "system", "content": "20 21"}]
    again = ask(chat, QUESTIONS[0])
    assert again.ids == first.ids
    assert again.stats.positions == first.stats.positions


def test_a_reset_in_the_middle_of_an_answer_gives_it_up() -> None:
    chat = session("llama")
    answer = chat.send(QUESTIONS[0])
    next(answer)
    chat.reset()
    with pytest.raises(ParameterError, match="given up"):
        answer.generations()
    assert chat.messages == []


def test_a_conversation_longer_than_the_context_is_refused_and_goes_on() -> None:
    chat = session("llama")
    ask(chat, QUESTIONS[0])
    before = list(chat.messages)
    with pytest.raises(ContextError, match="the model's context is 96"):
        chat.send(" ".join(["8"] * 90))
    assert chat.messages == before
    assert ask(chat, "9").text


def assert_answers_as_if_alone(chat: ChatSession, question: str) -> None:
    """Down to the confidences: they show stale keys before the ids do."""
    messages = [*chat.messages, {"role": "user", "content": question}]
    alone = anyorder.generate(chat.model, messages, chat.params)
    answer = ask(chat, question)
    assert answer.ids == alone.ids
    assert [s.confidence for s in answer.trace] == pytest.approx([s.confidence for s in alone.trace], abs=1e-6)


@pytest.mark.parametrize("kept", range(6))
@pytest.mark.parametrize("family", ["llama", "sdar", "fast_dllm_v2"])
def test_a_changed_past_is_computed_anew(family: str, kept: int) -> None:
    """The caller may edit `messages`; only the common beginning is read from storage, and only whole blocks of it."""
    chat = session(family)
    for question in QUESTIONS[:2]:
        ask(chat, question)
    words = ["15", "16", "17", "18", "19", "21"]
    chat.messages[2] = {"role": "user", "content": " ".join(["12"] * kept + words[kept:])}
    assert_answers_as_if_alone(chat, "9")


@pytest.mark.parametrize("family", ["llama", "sdar", "fast_dllm_v2"])
def test_a_given_up_answer_to_another_past_does_not_spoil_this_one(family: str) -> None:
    """It overwrote columns that the old past had stored."""
    chat = session(family, stop_ids=())
    for question in QUESTIONS[:3]:
        ask(chat, question)
    past = list(chat.messages)
    chat.messages = [{"role": "user", "content": "23 22 21 19"}, *past[1:]]
    given_up = chat.send("9")
    for _ in range(5):
        next(given_up)
    chat.messages = past
    assert_answers_as_if_alone(chat, "9")
