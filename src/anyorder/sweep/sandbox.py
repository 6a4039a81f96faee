"""Whether a program that a model wrote passes its test: run in a process of its own that can harm nothing (`jail`)."""

from __future__ import annotations

import platform
import secrets
import subprocess
import sys
import tempfile

from anyorder.errors import SweepError
from anyorder.sweep import jail

SECONDS, SIZE = 10, 1 << 30
"""Limits of a program: time of the processor and bytes of memory."""


def check_machine() -> None:
    """Refuse a machine on which nothing would lock the program up.

    Raises:
        SweepError: it is not Linux on x86_64 or aarch64, or its kernel has no filters.
    """
    if sys.platform != "linux" or platform.machine() not in jail.MACHINES:
        raise SweepError(
            f"code that a model wrote is run only where it can be locked up: on Linux on x86_64 or aarch64, not on "
            f"{sys.platform} on {platform.machine()}; use another task or --check"
        )
    if not passes("", seconds=SECONDS):
        raise SweepError(
            "code that a model wrote cannot be locked up here: the kernel refuses the filter of system calls, or "
            "Python does not start within the limits; use another task or --check"
        )


def passes(program: str, *, seconds: int = SECONDS, size: int = SIZE) -> bool:
    """Does the program come to its end, without an error, within its limits?

    Args:
        program: Python source; the test stands behind what it tests.
        seconds: of the processor; twice as many on the clock.
        size: bytes of memory.
    """
    token = secrets.token_hex(16)
    command = [sys.executable, "-I", "-B", jail.__file__, str(seconds), str(size), token]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                input=program.encode("utf-8", "replace"),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={"PATH": "", "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
                timeout=2 * seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return done.stdout == token.encode()
