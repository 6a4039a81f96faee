"""Memory that a step frees and the next one needs again."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have glibc keep large freed blocks in this process, from now on.

    By default it gives them back to the system, which clears their pages before it hands them out again: on a CPU a
    tenth of a training step. The process then holds what its largest step needed until it ends.

    Returns:
        whether it did; other libraries are left alone.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(option, _MOST) for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))
