"""What a model writes is run, and can do nothing but compute."""

from __future__ import annotations

import platform
import socket
import sys
from pathlib import Path

import pytest

from anyorder.errors import SweepError
from anyorder.sweep import sandbox
from anyorder.sweep.sandbox import passes

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="needs Linux"
)


def refused(statement: str) -> str:
    """A program that passes only if the system refuses the statement."""
    body = "\n".join(f"    {line}" for line in statement.splitlines())
    return f"try:\n{body}\nexcept OSError as error:\n    pass\nelse:\n    raise SystemExit('was allowed')"


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("", True),
        ("import math, collections, re, itertools, typing\nassert math.prod([2, 3]) == 6", True),
        ("import hashlib, random, heapq, datetime, decimal, json, string, functools", True),
        ("print('to nobody')", True),
        ("assert 1 == 2", False),
        ("raise SystemExit(0)", False),  # leaving early is no pass
        ("import os; os._exit(0)", False),
        ("def f(:", False),
        ("import threading\nt = threading.Thread(target=lambda: None); t.start(); t.join()", True),
        ("assert input() == ''", False),  # nothing to read, and the test itself least of all
    ],
)
def test_a_program_passes_if_it_comes_to_its_end(program: str, passed: bool) -> None:
    assert passes(program) is passed


def test_limits_end_a_program() -> None:
    assert not passes("while True: pass", seconds=1)
    assert not passes("import time; time.sleep(30)", seconds=1)
    assert not passes("x = bytearray(1 << 30)", size=1 << 29)
    assert passes("x = bytearray(1 << 20)", size=1 << 29)


@pytest.mark.parametrize(
    "statement",
    [
        "import socket; socket.socket()",
        "import socket; socket.socketpair()",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.execv('/bin/true', ['true'])",
        "import os; os.kill(os.getppid(), 9)",
        "open('here', 'w')",
        "import os; os.mkdir('here')",
        "import os; os.open('.', os.O_RDWR | os.O_TMPFILE)",
        "import tempfile; tempfile.TemporaryFile()",
    ],
)
def test_what_reaches_out_is_refused(statement: str) -> None:
    assert passes(refused(statement)), statement


def test_reading_is_allowed_and_the_checks_above_can_fail() -> None:
    assert not passes(refused("import os; os.listdir('.')"))


def test_files_of_the_user_are_safe(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine", "utf-8")
    for statement in (
        f"import os; os.remove({str(kept)!r})",
        f"import os; os.rename({str(kept)!r}, {str(kept) + '2'!r})",
        f"import os; os.chmod({str(kept)!r}, 0)",
        f"import os; os.truncate({str(kept)!r}, 0)",
        f"import os; os.utime({str(kept)!r}, (0, 0))",
        f"open({str(kept)!r}, 'a')",
        f"import shutil; shutil.rmtree({str(tmp_path)!r})",
    ):
        assert passes(refused(statement)), statement
    assert kept.read_text("utf-8") == "mine"


def test_no_connection_leaves(tmp_path: Path) -> None:
    """Also not by a socket that was there before: there is none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert passes(refused(f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)"))


def test_nothing_of_the_environment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert passes("import os\nassert 'SECRET' not in os.environ")


def test_a_machine_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.check_machine()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SweepError, match="only where it can be locked up"):
        sandbox.check_machine()
