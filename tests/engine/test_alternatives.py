"""The likeliest tokens of a slot at the pass that committed it: those of the distribution its confidence is from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests import oracles
from tests.engine import helpers
from tests.engine.test_adapter import adapted
from tests.engine.tiny import ANY_ORDER, MASK, tiny

import anyorder
from anyorder import DecodeParams, Hole
from anyorder.events import Committed, Started
from anyorder.generation import Alternative
from anyorder.serving import Service, ServiceSettings, Work

JOINT = oracles.scrambled(length=4, num_symbols=3, seed=5)
OFFSET = 2


@pytest.mark.parametrize("policy", ["random", "low_confidence"])
@pytest.mark.parametrize("kind", ["full", "block", "causal"])
def test_they_are_the_exact_marginals_of_the_commit_pass(kind: str, policy: str) -> None:
    """Guards against rows of another slot, another pass, or of the logits before the mask was banned."""
    factory = {
        "full": helpers.full(JOINT, offset=OFFSET),
        "block": helpers.block(JOINT, offset=OFFSET, block_length=2),
        "causal": helpers.causal(JOINT, offset=OFFSET),
    }[kind]
    choosers = [replace(helpers.chooser(JOINT, policy, request=n), top=2) for n in range(6)]
    _, events, _ = helpers.run(JOINT, factory, choosers, offset=OFFSET, shift=kind == "causal")
    known: dict[int, list[int]] = {}
    seen = 0
    for event in events:
        canvas = known.setdefault(event.request, [JOINT.mask_id] * JOINT.length)
        if not isinstance(event, Committed):
            continue
        sight = [block_end(kind, slot - OFFSET) for slot in event.slots]
        exact = [JOINT.marginals(torch.tensor([hidden(canvas, end)]))[0] for end in sight]
        for slot, alternatives, p in zip(event.slots, event.alternatives, exact, strict=True):
            best = p[slot - OFFSET].topk(2)
            assert [token for token, _ in alternatives] == best.indices.tolist()
            assert [chance for _, chance in alternatives] == pytest.approx(best.values.tolist())
            seen += 1
        for slot, token in zip(event.slots, event.ids, strict=True):
            canvas[slot - OFFSET] = token
    assert seen == 6 * JOINT.length


def block_end(kind: str, slot: int) -> int:
    """First slot that the row does not see."""
    return {"full": JOINT.length, "block": slot // 2 * 2 + 2, "causal": slot}[kind]


def hidden(canvas: list[int], end: int) -> list[int]:
    return [token if slot < end else JOINT.mask_id for slot, token in enumerate(canvas)]


@pytest.mark.parametrize("family", ANY_ORDER)
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_they_hold_the_committed_token_with_its_own_confidence(family: str, temperature: float) -> None:
    model = tiny(family)
    params = DecodeParams(max_new_tokens=9, temperature=temperature, top_logprobs=20, stop_ids=())
    for event in anyorder.stream(model, [5, 6, 7], params):
        if not isinstance(event, Committed):
            continue
        for token, confidence, best in zip(event.ids, event.confidence, event.alternatives, strict=True):
            assert len(best) == 20
            assert dict(best).get(token, confidence) == pytest.approx(confidence)
            assert [chance for _, chance in best] == sorted((chance for _, chance in best), reverse=True)
            assert sum(chance for _, chance in best) <= 1 + 1e-9
            if temperature == 0:
                assert token == best[0][0]


def test_asking_for_them_changes_nothing_else() -> None:
    for family in ANY_ORDER:
        plain, asked = (
            anyorder.generate(tiny(family), [5, 6, 7], max_new_tokens=9, temperature=0.8, seed=3, top_logprobs=top)
            for top in (0, 4)
        )
        assert plain.ids == asked.ids
        assert [replace(slot, alternatives=()) for slot in asked.trace] == list(plain.trace)
        assert all(len(slot.alternatives) == 4 and not own.alternatives
                   for slot, own in zip(asked.trace, plain.trace, strict=True))  # fmt: skip


@pytest.mark.parametrize("draft", ["lookup", "ngram"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_do_not_change_them(draft: Any, temperature: float) -> None:
    """Slots that a draft foretold have been decided by rows of another pass; the numbers must be the same."""
    prompt = [5, 6, 7, 5, 6, 7, 5, 6]
    params = DecodeParams(max_new_tokens=16, temperature=temperature, top_logprobs=3, stop_ids=(), mode="causal")
    plain = anyorder.generate(tiny("llama"), prompt, params, draft="none")
    drafted = anyorder.generate(tiny("llama"), prompt, params, draft=draft)
    assert plain.ids == drafted.ids
    for own, other in zip(plain.trace, drafted.trace, strict=True):
        assert [a.id for a in own.alternatives] == [a.id for a in other.alternatives]
        assert [a.probability for a in own.alternatives] == pytest.approx([a.probability for a in other.alternatives])


def test_masks_that_forecast_stand_apart_from_them() -> None:
    """The packed forecasts of a denoiser have fewer rows than the decision beside them."""
    model = adapted()
    params = DecodeParams(max_new_tokens=12, top_logprobs=3, stop_ids=(), mode="causal")
    plain = anyorder.generate(model, [5, 6, 7], params, draft="none")
    drafted = anyorder.generate(model, [5, 6, 7], params, draft="denoiser", draft_length=4)
    assert plain.ids == drafted.ids
    assert [[a.id for a in slot.alternatives] for slot in plain.trace] == [
        [a.id for a in slot.alternatives] for slot in drafted.trace
    ]


def test_what_is_banned_is_no_alternative() -> None:
    answer = anyorder.generate(
        tiny("llada"), [5, Hole(3), 6], max_new_tokens=0, banned_ids=(7, 8), top_logprobs=20, steps=1
    )
    for slot in answer.trace:
        assert all(a.probability > 0 and a.id not in (7, 8, MASK) for a in slot.alternatives)
    assert isinstance(answer.trace[0].alternatives[0], Alternative)


def test_a_mixed_batch_keeps_its_own_rows() -> None:
    model = tiny("sdar")
    prompts = [[5, 6], [7, 8, 9], [4, 5, 6, 7]]
    together = anyorder.generate_batch(model, prompts, max_new_tokens=6, top_logprobs=2)
    for prompt, answer in zip(prompts, together, strict=True):
        alone = anyorder.generate(model, prompt, max_new_tokens=6, top_logprobs=2)
        assert [s.id for s in answer.trace] == [s.id for s in alone.trace]
        for own, other in zip(answer.trace, alone.trace, strict=True):
            assert [a.id for a in own.alternatives] == [a.id for a in other.alternatives]
            assert [a.probability for a in own.alternatives] == pytest.approx(
                [a.probability for a in other.alternatives], abs=1e-6
            )


def test_decisions_of_different_heights_travel_together() -> None:
    model = tiny("sdar")
    works = [
        Work(prompt=[5, 6, 7], params=DecodeParams(max_new_tokens=6, top_logprobs=top, stop_ids=()))
        for top in (0, 3, 1)
    ]
    service = Service(model, ServiceSettings(kv_bytes=1 << 18))
    service.start()
    tickets = [service.submit(work) for work in works]
    events = [[event for event in ticket if isinstance(event, Committed)] for ticket in tickets]
    service.stop()
    assert [[len(best) for event in own for best in event.alternatives] for own in events] == [[], [3] * 6, [1] * 6]
    assert len({tuple((event.slots, event.ids) for event in own) for own in events}) == 1


def test_events_say_them_only_where_they_were_asked_for() -> None:
    events = [e for e in anyorder.stream(tiny("llama"), [5], max_new_tokens=2) if not isinstance(e, Started)]
    assert all("alternatives" not in event.as_dict() for event in events)
    asked = [
        e for e in anyorder.stream(tiny("llama"), [5], max_new_tokens=2, top_logprobs=1) if isinstance(e, Committed)
    ]
    assert all(event.as_dict()["alternatives"][0][0][0] == event.ids[0] for event in asked)
