from __future__ import annotations

import platform
import resource
import subprocess
import sys

import pytest

from anyorder.training import memory
from anyorder.training.memory import keep_freed_memory

FAULTS = """
import resource
from anyorder.training.memory import keep_freed_memory
if {keep}:
    assert keep_freed_memory()
import torch
for _ in range(20):
    torch.ones(1 << 24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def faults(keep: bool) -> int:
    """Pages that the system handed to a process that makes 20 tensors of 64 MB, one after the other."""
    done = subprocess.run([sys.executable, "-c", FAULTS.format(keep=keep)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone has the setting")
def test_freed_blocks_are_used_again() -> None:
    block = (1 << 26) // resource.getpagesize()
    assert faults(False) - faults(True) > 10 * block


def test_other_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: pytest.fail("touched"))
    assert keep_freed_memory() is False
