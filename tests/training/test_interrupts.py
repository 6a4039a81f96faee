from __future__ import annotations

import os
import signal
import threading

import pytest

from anyorder.training.interrupts import Interrupts


def test_the_first_signal_is_a_wish_and_the_second_one_is_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.number == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interrupts() as interrupts:
        assert interrupts.number == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_another_thread_may_train() -> None:
    found: list[int] = []

    def work() -> None:
        with Interrupts() as interrupts:
            found.append(interrupts.number)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [0]
