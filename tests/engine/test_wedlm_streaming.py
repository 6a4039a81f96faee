"""WeDLM's streaming decoder: against its published loop, written down plainly and without a cache, and its rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.audit import audited
from tests.engine.requests import ALWAYS, REAL_TOKENS
from tests.engine.test_published_loops import prompt_of, rows
from tests.engine.tiny import MASK, tiny

import anyorder
from anyorder.errors import ParameterError
from anyorder.events import BlockFinished
from anyorder.models.loaded import LoadedModel

NONE: tuple[int, ...] = ()
WIDTH = 8  # of the tiny model's window
BETWEEN = (1.7, 2.1, 2.5, 2.7, 2.9)  # nats; some of them are between the entropies of its rows


def streaming(
    model: LoadedModel, prompt: list[int], length: int, bound: float, penalty: float, stop: int = -1
) -> tuple[list[int], int]:
    """Its engine's loop; slots behind the last one, and behind a stop token, are nobody's."""
    ids, end, passes = list(prompt), len(prompt) + length, 0
    while MASK in ids or len(ids) < end:
        if stop not in ids[len(prompt) :]:
            first = ids.index(MASK) if MASK in ids else len(ids)
            ids += [MASK] * (min(first + WIDTH, end) - len(ids))
        masked = [at for at, token in enumerate(ids) if token == MASK]
        order = [at for at in range(len(ids)) if at not in masked] + masked
        sees = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        found = rows(model, [ids[at] for at in order], sees, torch.tensor(order))[-len(masked) :]
        raised = {
            at: float(torch.distributions.Categorical(logits=row).entropy()) + penalty * (at - masked[0])
            for at, row in zip(masked, found, strict=True)
            if stop not in ids[len(prompt) : at]
        }
        chosen = [at for at, height in raised.items() if height < bound] or [min(raised, key=lambda at: raised[at])]
        for at in chosen:
            ids[at] = int(found[masked.index(at)].argmax())
        passes += 1
        answer = ids[len(prompt) :]
        if stop in answer and MASK not in answer[: answer.index(stop)]:
            return answer[: answer.index(stop)], passes
    return ids[len(prompt) :], passes


@pytest.mark.parametrize("cache", ["block", "none"])
@pytest.mark.parametrize("stop", [-1, 7, 12])
@pytest.mark.parametrize(
    ("size", "length", "bound", "penalty"),
    [
        (5, 16, 0.0, 0.02),
        (1, 7, 2.6, 0.02),
        *[(11, 23, bound, 0.02) for bound in BETWEEN],
        (8, 24, 2.7, 0.1),
        (3, 9, 9.0, 0.0),
    ],
)
def test_streaming(size: int, length: int, bound: float, penalty: float, stop: int, cache: str) -> None:
    model = tiny("wedlm")
    for seed in range(4):
        prompt = [token for token in prompt_of(seed, size) if token != stop]
        expected, passes = streaming(model, prompt, length, bound, penalty, stop)
        answer = anyorder.generate(
            model, prompt, max_new_tokens=length, cache=cache, stop_ids=NONE if stop < 0 else (stop,),
            entropy_threshold=bound, position_penalty=penalty,
        )  # fmt: skip
        assert list(answer.ids) == expected
        assert answer.stats.passes == passes


def test_the_loop_is_between_one_slot_and_a_window_per_pass() -> None:
    """Guards the cases above against bounds that decide one slot, or all, in every pass."""
    model, prompts = tiny("wedlm"), [prompt_of(seed, 11) for seed in range(4)]
    found = [streaming(model, prompt, 23, bound, 0.02)[1] for bound in BETWEEN for prompt in prompts]
    assert any(4 < passes < 22 for passes in found)


def test_its_published_values_are_the_defaults() -> None:
    model, prompt = tiny("wedlm"), prompt_of(2, 6)
    published: dict[str, Any] = {"entropy_threshold": 0.4, "position_penalty": 0.02, "window": "sliding"}
    given = anyorder.stream(model, prompt, max_new_tokens=20, policy="entropy_threshold", **published)
    plain = anyorder.stream(model, prompt, max_new_tokens=20)
    assert (plain.params[0].policy, plain.params[0].window) == ("entropy_threshold", "sliding")
    assert list(given) == list(plain)


def test_a_finished_slot_is_fed_once_and_a_pass_sees_a_window_of_masks() -> None:
    """At one slot per pass from the left: the prompt, then a new token and the window."""
    answer = anyorder.generate(
        tiny("wedlm"), prompt_of(3, 9), max_new_tokens=16, entropy_threshold=0, position_penalty=100, stop_ids=NONE
    )
    assert [slot.commit_pass for slot in answer.trace] == list(range(16))
    assert answer.stats.positions == (9 + WIDTH) + 8 * (1 + WIDTH) + sum(1 + left for left in range(1, WIDTH))


@settings(max_examples=60)
@given(
    prompt=st.lists(REAL_TOKENS, min_size=1, max_size=9),
    length=st.integers(1, 20),
    width=st.integers(1, 9),
    forced=st.dictionaries(st.integers(0, 19), REAL_TOKENS, max_size=12),
    knobs=st.sampled_from(
        [{}, {"entropy_threshold": 2.5}, {"entropy_threshold": 99.0}, {"threshold": 0.1}, {"entropy_bound": 3.0},
         {"factor": 3.0}, {"policy": "first_hitting"}]
    ),
    always=st.fixed_dictionaries({}, optional={name: ALWAYS[name] for name in ("temperature", "seed", "stop_ids")}),
)  # fmt: skip
def test_every_answer_keeps_the_rules_with_and_without_cache(
    prompt: list[int],
    length: int,
    width: int,
    forced: dict[int, int],
    knobs: dict[str, Any],
    always: dict[str, Any],
) -> None:
    """It ends, nothing is decided twice or behind a stop token, forced tokens stand, and the cache is exact."""
    model, forced = tiny("wedlm"), {at: token for at, token in forced.items() if at < length}
    params: dict[str, Any] = {"max_new_tokens": length, "block_length": width, "forced": forced, "window": "sliding"}
    kept, computed = (
        audited(anyorder.stream(model, prompt, cache=cache, **params, **knobs, **always), model, prompt)
        for cache in ("block", "none")
    )
    assert (kept.ids, kept.stats.passes) == (computed.ids, computed.stats.passes)
    assert all(kept.ids[at] == token for at, token in forced.items() if at < len(kept.ids))


def test_the_cache_is_exact_to_rounding() -> None:
    answer = anyorder.generate(
        tiny("wedlm"), prompt_of(4, 7), max_new_tokens=24, entropy_threshold=2.5, measure_drift=True, stop_ids=NONE
    )
    assert answer.stats.drift_max is not None
    assert answer.stats.drift_max < 1e-9


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_batch_is_its_requests_alone(temperature: float) -> None:
    model, prompts = tiny("wedlm"), [prompt_of(seed, size) for seed, size in enumerate((3, 17, 8))]
    params: dict[str, Any] = {"max_new_tokens": 21, "entropy_threshold": 2.5, "temperature": temperature}
    together = anyorder.generate_batch(model, prompts, **params)
    assert [answer.ids for answer in together] == [anyorder.generate(model, p, **params).ids for p in prompts]


def test_every_block_of_the_answer_is_reported_once_and_in_order() -> None:
    for bound in (0.0, 2.5, 99.0):
        events = list(
            anyorder.stream(tiny("wedlm"), [5, 6, 7], max_new_tokens=21, entropy_threshold=bound, stop_ids=NONE)
        )
        spans = [(e.block, e.start, e.end) for e in events if isinstance(e, BlockFinished)]
        assert spans == [(0, 3, 11), (1, 11, 19), (2, 19, 24)]


def test_the_entropy_is_that_of_the_model_whatever_the_temperature() -> None:
    """As published: which slots the first pass commits does not depend on temperature, top-k or top-p."""

    def first(seed: int, bound: float, **sampling: Any) -> int:
        params: dict[str, Any] = {"entropy_threshold": bound, "position_penalty": 0.1, "stop_ids": NONE, **sampling}
        answer = anyorder.generate(tiny("wedlm"), prompt_of(seed, 6), max_new_tokens=WIDTH, **params)
        return sum(slot.commit_pass == 0 for slot in answer.trace)

    cases = [(seed, bound) for seed in range(4) for bound in BETWEEN]
    plain = [first(*case) for case in cases]
    for sampling in ({"temperature": 3.0}, {"temperature": 0.1}, {"temperature": 1.0, "top_k": 2}):
        assert [first(*case, **sampling) for case in cases] == plain
    assert any(1 < count < WIDTH for count in plain)


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sdar", {"window": "sliding"}, r"`window` is about models that read masks behind all known tokens \(WeDLM\)"),
    ("llada", {"window": "block"}, r"`window` is about models that read masks behind all known tokens \(WeDLM\)"),
    ("llama", {"window": "sliding"}, r"`window` is about models that read masks behind all known tokens \(WeDLM\)"),
    ("wedlm", {"window": "sliding", "steps": 4}, "policy 'low_confidence' shares a block among passes, and window"),
    ("wedlm", {"window": "sliding", "policy": "origin"}, "policy 'origin' shares a block among passes"),
    ("wedlm", {"window": "sliding", "sub_block_length": 4}, "`sub_block_length` divides blocks, and window 'sliding'"),
    ("wedlm", {"threshold": 0.5, "position_penalty": 0.1}, "policy 'threshold' does not read `position_penalty`"),
    ("wedlm", {"threshold": 0.5, "entropy_threshold": 0.1}, "belong to different policies; name one with `policy`"),
    ("llama", {"mode": "causal", "entropy_threshold": 0.1}, "`entropy_threshold` has no meaning in mode 'causal'"),
]


@pytest.mark.parametrize(("family", "params", "message"), REFUSED)
def test_what_does_not_fit_is_refused(family: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        anyorder.generate(tiny(family), [5, 6], max_new_tokens=8, **params)


def test_blocks_and_any_other_family_take_the_policy_too() -> None:
    """The two knobs pick their policy; `window` block keeps it inside of blocks."""
    for family, window in (("wedlm", "block"), ("sdar", "auto"), ("llada", "auto"), ("llama", "auto")):
        for knob in ({"entropy_threshold": 2.5}, {"position_penalty": 0.3}):
            params: dict[str, Any] = {"max_new_tokens": 9, "window": window, **knob}
            stream = anyorder.stream(tiny(family), [5, 6], **params)
            assert (stream.params[0].policy, stream.params[0].window) == ("entropy_threshold", window)
            audited(stream, tiny(family), [5, 6])
