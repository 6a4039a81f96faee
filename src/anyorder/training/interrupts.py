"""Ctrl-C and SIGTERM as a wish that the loop reads: the step is finished, a checkpoint written, then the run stops."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Context in which the first signal only sets `number`; a second one is handled as it was before.

    Outside the main thread, where Python allows no handlers, signals are left alone.
    """

    def __init__(self) -> None:
        self.number = 0
        """Of the signal that came; 0: none."""
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self.__exit__()
