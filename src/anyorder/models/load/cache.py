"""The folder of converted checkpoints, `ANYORDER_HOME`: entries appear whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from anyorder.errors import ModelError


def home() -> Path:
    """`ANYORDER_HOME` or ~/.cache/anyorder; may not exist yet."""
    return Path(os.environ.get("ANYORDER_HOME") or "~/.cache/anyorder").expanduser()


def cached(key: str, make: Callable[[Path], None]) -> Path:
    """The cache folder named `key`, made on first use.

    Args:
        key: file name of the entry.
        make: fills an empty folder; its exceptions leave no entry behind.
    Raises:
        ModelError: the cache folder cannot be written.
    """
    target = home() / "converted" / key
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=target.parent))
    except OSError as error:
        raise _unwritable(error) from None
    try:
        make(work)
        _publish(work, target)
    except OSError as error:
        raise _unwritable(error) from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _publish(work: Path, target: Path) -> None:
    work.chmod(0o755)  # mkdtemp's 0700 would hide the entry from others who share the cache
    try:
        work.rename(target)
    except OSError:
        if not target.is_dir():  # another process may have been faster: its entry is as good
            raise


def _unwritable(error: OSError) -> ModelError:
    what = "folder with more room" if error.errno == errno.ENOSPC else "writable folder"
    return ModelError(f"cannot write the model cache {home()} ({error.strerror}); set ANYORDER_HOME to a {what}")
