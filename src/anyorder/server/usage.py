"""What was delivered and what was computed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from anyorder.server.choice import Choice


def usage(choices: Sequence[Choice]) -> dict[str, Any]:
    """Tokens in OpenAI's nested fields and Inception's flat ones; under `diffusion` what they took.

    A prompt counts once however many answers it gets. `completion_tokens` are the tokens of the text, without a stop
    token; `tokens_per_forward` counts it, as `anyorder generate` does, where it ended the answer. What scores of texts
    took stands under `scoring`: they decide nothing.
    """
    answers = [choice for choice in choices if choice.scores is None]
    first = {choice.prompt: choice for choice in reversed([*answers, *choices])}
    prompt = sum(choice.prompt_tokens for choice in first.values())
    cached = sum(choice.cached_tokens for choice in first.values())
    completion = sum(choice.answer.delivered for choice in choices)
    reasoning = sum(choice.answer.reasoning_tokens for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": reasoning, "audio_tokens": 0, "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
        "reasoning_tokens": reasoning,
        "cached_input_tokens": cached,
        "diffusion": diffusion(answers),
        **({"scoring": scoring(choices)} if len(answers) < len(choices) else {}),
    }  # fmt: skip


def scoring(choices: Sequence[Choice]) -> dict[str, int]:
    """What it took to score texts, and how many of their tokens were scored."""
    scored = [choice for choice in choices if choice.scores is not None]
    return {
        "passes": sum(choice.computed.passes for choice in scored),
        "positions": sum(choice.computed.positions for choice in scored),
        "tokens": sum(len(choice.scores.logprobs) for choice in scored if choice.scores is not None),
    }


def diffusion(choices: Sequence[Choice]) -> dict[str, Any]:
    """What the engine computed, summed over the answers, and what length was paid for."""
    answers = [choice.answer for choice in choices]
    passes = sum(answer.passes for answer in answers)
    committed = sum(answer.committed for answer in answers)
    wasted = sum(answer.wasted for answer in answers)
    slots = sum(canvas_slots(choice) for choice in choices)
    delivered = sum(answer.delivered for answer in answers)
    return {
        "passes": passes,
        "tokens_per_forward": (committed - wasted) / passes if passes else 0.0,
        "positions": sum(choice.computed.positions for choice in choices),
        "blocks": sum(answer.fold.blocks for answer in answers),
        "committed": committed,
        "revised": sum(answer.revised for answer in answers),
        "wasted": wasted,
        "block_length": choices[0].ticket.params.block_length if choices else None,
        "positions_by_block": [cost for choice in choices for cost in positions_by_block(choice)],
        "canvas_slots": slots,
        "unused_share": max(slots - delivered, 0) / slots if slots else 0.0,
    }


def canvas_slots(choice: Choice) -> int:
    """Slots that passes computed to get one answer, decided or not: the length that was paid for.

    One token at a time these are the committed ones. On a canvas that is read as a whole they are all slots of answer
    and holes that the model saw; a block decoder computes whole blocks, also where the answer ends inside one.
    """
    fold, params = choice.answer.fold, choice.ticket.params
    if params.mode == "causal":
        return choice.answer.committed
    if params.mode == "full" or params.block_length is None:
        return len(fold.holes) + len(fold.ids) - fold.answer_start
    begun = -(-len(fold.ids) // params.block_length) * params.block_length
    return len(fold.holes) + begun - fold.answer_start


def positions_by_block(choice: Choice) -> list[int]:
    """Positions that each block of one answer took, in their order: the first with the prompt, the last as far as it
    came."""
    ends = [0, *choice.block_ends]
    rest = choice.computed.positions - ends[-1]
    costs = [end - begin for begin, end in pairwise(ends)]
    return [*costs, rest] if rest and choice.ticket.params.mode != "causal" else costs
