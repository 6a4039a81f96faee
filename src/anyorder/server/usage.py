"""What was delivered and what was computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.server.choice import Choice
from anyorder.server.streams.answer import Answer


def usage(choices: Sequence[Choice]) -> dict[str, Any]:
    """Tokens in OpenAI's nested fields and Inception's flat ones; under `diffusion` what they took.

    A prompt counts once however many answers it gets. `completion_tokens` are the tokens of the text, without a stop
    token; `tokens_per_forward` counts it, as `anyorder generate` does, where it ended the answer.
    """
    first = {choice.prompt: choice for choice in reversed(choices)}
    prompt = sum(choice.prompt_tokens for choice in first.values())
    cached = sum(choice.cached_tokens for choice in first.values())
    completion = sum(choice.answer.delivered for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
        "reasoning_tokens": 0,
        "cached_input_tokens": cached,
        "diffusion": diffusion([choice.answer for choice in choices]),
    }  # fmt: skip


def diffusion(answers: Sequence[Answer]) -> dict[str, Any]:
    """What the engine computed, summed over the answers."""
    passes = sum(answer.passes for answer in answers)
    committed = sum(len(answer.fold.commits) for answer in answers)
    wasted = sum(answer.wasted for answer in answers)
    positions = [answer.positions for answer in answers]
    return {
        "passes": passes,
        "tokens_per_forward": (committed - wasted) / passes if passes else 0.0,
        "positions": None if None in positions else sum(p for p in positions if p is not None),
        "blocks": sum(answer.fold.blocks for answer in answers),
        "committed": committed,
        "revised": sum(answer.revised for answer in answers),
        "wasted": wasted,
    }
