"""What is under deploy/: its command lines are ours, its files are there, and its times fit the server's."""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads
from tests.cli.scripted import scripted_model
from tests.server.live import live

from anyorder.cli import serve
from anyorder.server.app import ROUTES
from anyorder.server.settings import ServerSettings
from anyorder.serving.settings import ServiceSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, loads: Loads) -> list[Any]:
    """What would have been served."""
    seen: list[Any] = []
    monkeypatch.setattr(serve, "run", lambda *parts: seen.extend(parts))
    return seen


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with a key."""
    (tmp_path / "api_keys").write_text("a\n", encoding="utf-8")
    return tmp_path / "api_keys"


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest) of the Dockerfile, lines joined, comments gone."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def only(word: str) -> str:
    """What the one instruction of this kind says."""
    (found,) = [rest for name, rest in instructions() if name == word]
    return found


def unit() -> configparser.ConfigParser:
    """The systemd unit."""
    read = configparser.ConfigParser(interpolation=None, strict=True)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read(DEPLOY / "anyorder.service", "utf-8")
    return read


def test_the_container_starts_a_server_that_others_reach_with_a_key(cli: Cli, served: list[Any], keys: Path) -> None:
    name, *args = json.loads(only("ENTRYPOINT"))
    assert name == "anyorder"
    given = [str(keys) if arg == "/run/secrets/api_keys" else arg for arg in args]
    assert given != args
    done = cli(*given, "--port", "9000")
    assert done.code == 0, done.err
    assert served[1] == ServerSettings(host="0.0.0.0", port=9000, api_keys=("a",))
    assert only("EXPOSE") == str(ServerSettings().port)
    assert only("STOPSIGNAL") == "SIGTERM"
    assert only("USER") not in ("root", "0")


def test_a_container_without_keys_says_what_is_missing(cli: Cli, served: list[Any], tmp_path: Path) -> None:
    done = cli("serve", "--host", "0.0.0.0", "--api-keys-file", str(tmp_path / "none"))
    assert (done.code, served) == (1, [])
    assert str(tmp_path / "none") in done.err
    assert done.err.count("\n") == 1


def test_the_health_check_tells_a_server_from_none() -> None:
    command = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    assert command[:2] == ["python", "-c"]
    assert "/health" in {route.path for route in ROUTES}
    with live(scripted_model()) as server:
        code = command[2].replace("http://127.0.0.1:8000", server.url)
        assert code != command[2]
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    gone = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert gone.returncode != 0


def test_what_the_image_is_made_of_is_there_and_sent() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    sent = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines
    copied = [path for word, rest in instructions() if word == "COPY" and "--from" not in rest
              for path in rest.split()[:-1]]  # fmt: skip
    assert set(copied) == set(sent)
    assert all((ROOT / path).exists() for path in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["readme"] in copied
    assert all(any(fnmatch.fnmatch(path, pattern) for path in copied) for pattern in project["license-files"])


def test_the_image_has_the_extras_of_the_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (extras,) = [found for word, rest in instructions() if word == "RUN" for found in re.findall(r'"\.\[(.*)\]"', rest)]
    assert "server" in extras.split(",")
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_unit_starts_a_server_with_the_file_beside_it(cli: Cli, served: list[Any], keys: Path) -> None:
    service = unit()["Service"]
    places = {"/etc/anyorder/serve.toml": str(DEPLOY / "serve.toml"), "%d/api_keys": str(keys)}
    program, *args = shlex.split(service["ExecStart"])
    assert Path(program).name == "anyorder"
    assert set(places) <= set(args)
    done = cli(*(places.get(arg, arg) for arg in args))
    assert done.code == 0, done.err
    settings, limits = served[1], served[2]
    assert settings.is_local
    assert settings.api_keys == ("a",)
    assert limits != ServiceSettings()
    assert service["LoadCredential"].partition(":")[0] == "api_keys"
    assert float(service["TimeoutStopSec"]) > 2 * settings.drain_s
    assert service["Restart"] == "on-failure"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "anyorder.service").read_text("utf-8")
    copy = tmp_path / "anyorder.service"
    copy.write_text(text.replace("/opt/anyorder/bin/anyorder", "/bin/true"), encoding="utf-8")
    checked = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    found = [line for line in checked.stderr.splitlines() if copy.name in line]
    assert (checked.returncode, found) == (0, [])
