"""What is measured of a prompt, and what is refused before anything is."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from tests.conversion.subjects import QUESTIONS, base, converted, subject
from tests.engine.tiny import tiny

import anyorder
from anyorder.conversion.heldout import Question, digest, encode, fixed_questions
from anyorder.conversion.likelihood import Document, causal_score, fingerprint
from anyorder.conversion.measure import DRAFTS, SECTIONS, Record, Subject, tasks
from anyorder.errors import AnyorderError, ModelError, ParameterError


def measured(what: Subject) -> dict[str, dict[str, Record]]:
    records: dict[str, dict[str, Record]] = {}
    for task in tasks(what, records):
        record = task.section.measure(what, task.prompt, records)
        records.setdefault(task.section.name, {})[task.prompt.id] = record
    return records


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Record]]:
    return measured(subject())


def test_every_section_measures_every_prompt(records: dict[str, dict[str, Record]]) -> None:
    assert list(records) == [section.name for section in SECTIONS]
    assert all(list(found) == ["one", "two"] for found in records.values())
    assert list(tasks(subject(), records)) == []


def test_the_base_answers_as_generate_does(records: dict[str, dict[str, Record]]) -> None:
    expected = anyorder.generate(base(), list(QUESTIONS[0].messages), mode="causal", max_new_tokens=12)
    assert records["base"]["one"]["ids"] == expected.ids
    assert records["base"]["one"]["passes"] == expected.stats.passes


def test_perplexity_is_measured_of_both_models_on_both_texts(records: dict[str, dict[str, Record]]) -> None:
    record = records["perplexity"]["one"]
    prompt = subject().prompts[0]
    assert (
        record["texts"]["written"]["before"]["nats"]
        == causal_score(base(), Document(prompt.prompt_ids, tuple(b"Hello & bye"))).nats
    )
    assert record["texts"]["written"]["after"] == record["texts"]["written"]["before"]
    assert record["bit_identical"] is True
    assert list(records["perplexity"]["two"]["texts"]) == ["own"]  # nobody wrote an answer


def test_a_causal_mode_that_changed_is_not_bit_identical() -> None:
    record = measured(subject(model=base(seed=1)))["perplexity"]["one"]
    assert record["bit_identical"] is False
    assert record["texts"]["own"]["before"] != record["texts"]["own"]["after"]


def test_every_draft_is_decoded_or_says_why_not(records: dict[str, dict[str, Record]]) -> None:
    record = records["lossless"]["one"]
    assert list(record) == list(DRAFTS)
    for draft, found in record.items():
        if "refused" not in found:
            assert found["ids"] == records["base"]["one"]["ids"], draft
            assert found["seconds"] > 0
    assert "refused" not in record["none"]
    assert "refused" not in record["lookup"]


def test_thresholds_are_decoded_in_any_order_and_compared(records: dict[str, dict[str, Record]]) -> None:
    record = records["threshold"]["two"]
    assert list(record) == ["0.5", "0.9"]
    found = record["0.9"]
    prompt = list(QUESTIONS[1].messages)
    expected = anyorder.generate(
        converted(), prompt, mode="block", policy="threshold", threshold=0.9, max_new_tokens=12
    )
    assert (found["ids"], found["passes"]) == (expected.ids, expected.stats.passes)
    assert found["under_base"]["tokens"] == len(found["ids"])
    assert 0 <= found["similarity"] <= 1


def test_a_model_without_causal_mode_is_measured_as_far_as_it_goes() -> None:
    model = dataclasses.replace(tiny("sdar"), tokenizer=base().tokenizer)
    small = dataclasses.replace(tiny("llama"), tokenizer=base().tokenizer)
    prompts = [dataclasses.replace(prompt, prompt_ids=(4, 5, 6), answer_ids=()) for prompt in subject().prompts]
    what = Subject(model=model, base=small, prompts=prompts, max_new_tokens=8, thresholds=(0.9,))
    assert list(measured(what)) == ["base", "masked", "threshold"]
    assert [section.refuses(what) is None for section in SECTIONS] == [True, False, True, False, True]


def test_a_model_that_reads_from_left_to_right_only_is_measured_as_far_as_it_goes() -> None:
    """What no decoder can denoise with yet, for example a model of uniform noise."""
    spec = dataclasses.replace(base().spec, modes=("causal",))
    what = subject(model=dataclasses.replace(base(), spec=spec))
    assert list(measured(what)) == ["base", "perplexity", "lossless"]
    assert fingerprint(what.model, (1, 2, 3)).count(" ") == 0  # of the causal mode alone


class Backwards(type(base().tokenizer)):  # type: ignore[misc]
    def decode(self, ids: list[int], skip_special: bool = True) -> str:
        return super().decode(ids, skip_special)[::-1]


REFUSED: list[tuple[dict[str, Any], type[AnyorderError], str]] = [
    ({"model": dataclasses.replace(base(), mask_token_id=None)}, ModelError, "has no mask token"),
    ({"base": dataclasses.replace(base(), spec=tiny("llada").spec)}, ParameterError, "name it with `base`"),
    ({"model": dataclasses.replace(tiny("sdar"), tokenizer=None)}, ParameterError, "has 258 tokens and tiny sdar 24"),
    ({"base": dataclasses.replace(base(), tokenizer=Backwards())}, ParameterError, "mean something else to `base`"),
    ({"prompts": []}, ParameterError, "give at least one"),
    ({"thresholds": (0.9, 1.5)}, ParameterError, "`threshold` must be in [0, 1]"),
    ({"max_new_tokens": 0}, ParameterError, "prompt 'one' cannot be answered: `max_new_tokens` is 0"),
    ({"max_new_tokens": 505}, ParameterError, "the model's context is 512"),
]


@pytest.mark.parametrize(("changes", "kind", "says"), REFUSED, ids=[says for *_, says in REFUSED])
def test_what_cannot_be_measured_is_refused_at_once(
    changes: dict[str, Any], kind: type[AnyorderError], says: str
) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        subject(**changes)


def test_the_fixed_prompts_are_forty_of_five_kinds_that_take_turns() -> None:
    questions = fixed_questions()
    assert len(questions) == len({question.id for question in questions}) == 40
    assert {question.category for question in questions[:5]} == {"chat", "writing", "knowledge", "maths", "code"}
    assert all(question.answer and question.messages[0]["content"].strip() for question in questions)


def test_prompts_go_through_the_chat_template_if_there_is_one() -> None:
    (chat,) = encode(base(), QUESTIONS[:1])
    assert bytes(chat.prompt_ids) == b"user:Hi <b>\n"
    plain = dataclasses.replace(base(), tokenizer=_Plain())  # type: ignore[arg-type]
    (bare,) = encode(plain, QUESTIONS[:1])
    assert bytes(bare.prompt_ids) == b"Hi <b>"
    with pytest.raises(ModelError, match="has no tokenizer"):
        encode(tiny("llama"), QUESTIONS)


class _Plain(type(base().tokenizer)):  # type: ignore[misc]
    has_chat_template = False


def test_a_set_of_prompts_is_told_from_another() -> None:
    other = [*QUESTIONS[:1], Question(id="two", category="", messages=({"role": "user", "content": "2+3?"},))]
    assert digest(encode(base(), QUESTIONS)) == digest(encode(base(), QUESTIONS))
    assert digest(encode(base(), QUESTIONS)) != digest(encode(base(), other))
