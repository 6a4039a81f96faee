"""The progress bar of a run: steps, loss, tokens per second, time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Bar:
    """A bar on the standard error output; silent where that is no terminal.

    Args:
        done, steps: of the run.
        shown: False: silent.
    """

    def __init__(self, done: int, steps: int, *, shown: bool) -> None:
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}, {task.fields[speed]} tokens/s,"),
            TimeElapsedColumn(),
            TextColumn("gone,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not (shown and console.is_terminal),
        )
        self.task = self.progress.add_task("", total=steps, completed=done, loss="–", speed="–")

    def __enter__(self) -> Bar:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def step(self, done: int) -> None:
        """So many steps are done."""
        self.progress.update(self.task, completed=done)

    def show(self, record: Mapping[str, Any]) -> None:
        """A line of the log."""
        loss, speed = f"{record['loss']:.3f}", f"{record['tokens_per_second']:,.0f}"
        self.progress.update(self.task, loss=loss, speed=speed)
