"""What is asked: the n-th request of a benchmark is a function of n and the seed, so that a run can go on later."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from anyorder.errors import ParameterError

Surface = Literal["chat", "completions"]
Prompt = str | list[dict[str, str]]
"""A text, or the messages of a chat."""

BUILT_IN: tuple[str, ...] = (
    "Why is the sky blue? Answer for a child.",
    "Write a short note to a neighbour about a parcel that came while they were away.",
    "Explain what a hash table is and when it is slower than a sorted list.",
    "List five things to check before a long bicycle tour.",
    "Translate into French: the train to the coast leaves at seven, and we have not packed yet.",
    "Write a Python function that merges two sorted lists.",
    "What happened in the year 1969 that people still talk about?",
    "Give a recipe for a soup from leeks and potatoes.",
    "Summarise in one sentence: a river carries sand to the sea, and where it slows down a delta grows.",
    "Which is larger, the square of twelve or the cube of five? Say why.",
    "Write the opening of a story about a lighthouse keeper who collects clocks.",
    "What should a reviewer look for in a change that touches a cache?",
)
_WORDS = (
    "river stone window garden winter paper light answer bridge number letter market animal summer machine silver "
    "second forest travel pocket simple harbour copper ladder season village needle thunder orange method"
)


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from `low` to `high`, all as probable as each other."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str, param: str) -> Range:
        """`64` or `16:256`.

        Raises:
            ParameterError: it is neither, or empty.
        """
        low, _, high = text.partition(":")
        if low.isdecimal() and (high or low).isdecimal() and 1 <= int(low) <= int(high or low):
            return cls(int(low), int(high or low))
        raise ParameterError(f"`{param}` must be a whole number or a range like 16:256, got {text!r}", param=param)

    def draw(self, dice: random.Random) -> int:
        return dice.randint(self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One request: its number and its body."""

    index: int
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What a benchmark asks for.

    Prompts are taken from `prompts` in their order, over and over; or made of `words` random words, which no cache of
    prefixes knows. Lengths are drawn from their ranges, from `seed` and the number of the request.
    """

    model: str
    surface: Surface = "chat"
    prompts: Sequence[Prompt] = BUILT_IN
    words: Range | None = None
    """Length of random prompts, in words; None takes `prompts`."""
    max_tokens: Range = Range(64, 64)
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of the body, which go before ours."""

    def __post_init__(self) -> None:
        if self.surface == "completions" and not all(isinstance(prompt, str) for prompt in self.prompts):
            raise ParameterError("messages cannot go to completions; ask on the surface chat", param="surface")

    def settings(self) -> dict[str, Any]:
        """What tells workloads apart, JSON-able; long lists of prompts by a digest."""
        prompts = hashlib.sha256(json.dumps(list(self.prompts), sort_keys=True).encode()).hexdigest()
        return {**asdict(self), "prompts": prompts}

    def ask(self, index: int, load: str = "") -> Ask:
        """The request of that number; negative ones are for warming up. Random words are others under every load, or
        the later ones would find their prefixes in the server's cache."""
        dice, words = random.Random(f"{self.seed} {index}"), random.Random(f"{self.seed} {index} {load}")
        prompt = self.prompts[index % len(self.prompts)]
        if self.words is not None:
            prompt = " ".join(words.choices(_WORDS.split(), k=self.words.draw(dice)))
        body: dict[str, Any] = {"model": self.model}
        if self.surface == "completions":
            body["prompt"] = prompt
        else:
            body["messages"] = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        body["max_tokens"] = self.max_tokens.draw(dice)
        streaming = {"stream": True, "stream_options": {"include_usage": True}}
        return Ask(index=index, body={**body, **self.extra, **streaming})
