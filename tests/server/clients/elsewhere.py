"""Clients that are not part of the tests' own environment: found, run against live servers, their reports read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import Live

HERE = Path(__file__).parent
PYTHON = os.environ.get("ANYORDER_CLIENTS_PYTHON") or sys.executable
"""The interpreter whose environment has the clients."""


def need(package: str) -> None:
    """Skip the test if the clients' environment lacks a package."""
    found = subprocess.run([PYTHON, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0
    if not found:
        pytest.skip(f"{package} is not installed; ANYORDER_CLIENTS_PYTHON names the interpreter that has it")


def report(command: list[str], servers: dict[str, Live], **env: str) -> dict[str, Any]:
    """What a client's script saw: a JSON object, the last line that it prints.

    Args:
        command: gets the address and the model of each server in a JSON object, as its last argument.
    """
    where = {name: {"url": f"{server.url}/v1", "model": server.model} for name, server in servers.items()}
    done = run([*command, json.dumps(where)], **env)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def run(command: list[str], **env: str) -> subprocess.CompletedProcess[str]:
    """A command that reaches the servers of this machine without a proxy."""
    quiet = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return subprocess.run(
        command, env={**os.environ, **quiet, **env}, capture_output=True, text=True, check=False, timeout=300
    )
