"""A subject without a model: its answers, times and failures are functions of setting and item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from anyorder.errors import ParameterError
from anyorder.sweep.answer import Answer, Failed
from anyorder.sweep.graders import exact
from anyorder.sweep.items import Item, Task
from anyorder.sweep.run import Plan
from anyorder.sweep.settings import Setting, named
from anyorder.sweep.summary import Limits

QUALITY = {16: 0.95, 8: 0.95, 4: 0.92, 2: 0.4, 1: 0.0}
"""Steps -> how often the simulated model is right: the cliff is behind 4."""


def items(count: int) -> list[Item]:
    return [Item(id=str(n), prompt=f"question {n}", text=f"question {n}", references=("right",)) for n in range(count)]


def task(count: int, **changes: Any) -> Task:
    fields: dict[str, Any] = {"name": "simulated", "items": items(count), "grader": exact, "grading": "exact"}
    return Task(**{**fields, **changes})


def settings(steps: Sequence[int] = tuple(QUALITY)) -> list[Setting]:
    return named([{"steps": each} for each in steps], {"max_new_tokens": 16})


class Simulated:
    """Right with the chance that `quality` gives for the setting's steps, half of it decided by the item alone."""

    def __init__(
        self,
        quality: Mapping[int, float] = QUALITY,
        *,
        seed: int = 0,
        fails: Callable[[Setting, Item], str | None] = lambda setting, item: None,
    ) -> None:
        self.quality, self.seed, self.fails = quality, seed, fails
        self.name = "simulated"
        self.asked: list[tuple[str, str]] = []

    def identity(self) -> dict[str, Any]:
        return {"model": self.name, "seed": self.seed}

    def check(self, item: Item, setting: Setting) -> None:
        if setting.params["steps"] > 16:
            raise ParameterError("only 16 slots are to be decided", param="steps")

    def answer(self, item: Item, setting: Setting, sample: int) -> Answer:
        self.asked.append((setting.name, item.id))
        if (reason := self.fails(setting, item)) is not None:
            raise Failed(reason, ("busy",))
        steps = setting.params["steps"]
        return Answer(
            text="right" if self._draw(item, steps) < self.quality[steps] else "wrong",
            tokens=16,
            passes=steps,
            first_s=0.01,
            last_s=0.01 * steps,
            memory_bytes=1000 * steps,
        )

    def _draw(self, item: Item, steps: int) -> float:
        shared, own = Random(f"{self.seed}/{item.id}"), Random(f"{self.seed}/{item.id}/{steps}")
        return shared.random() if own.random() < 0.5 else own.random()


def plan(count: int = 400, *, subject: Simulated | None = None, budget: float = 0.1, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "task": task(count),
        "subject": subject or Simulated(),
        "settings": settings(),
        "limits": Limits(budget=budget, confidence=0.95),
    }
    return Plan(**{**fields, **changes})
