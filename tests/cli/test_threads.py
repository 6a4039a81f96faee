"""How threads wait is settled by what else runs, unless the user has said it."""

from __future__ import annotations

import os

import pytest

from anyorder.cli.threads import CHOICES, wait_politely_if_busy


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOICES:
        monkeypatch.setenv(name, "")  # so that it is put back behind the test
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("load", "expected"), [(0.1, None), (0.7, None), (1.3, "passive")])
def test_threads_sleep_where_others_run(load: float, expected: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    wait_politely_if_busy()
    assert os.environ.get("OMP_WAIT_POLICY") == expected


@pytest.mark.parametrize("name", CHOICES)
def test_what_the_user_set_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (5.0, 0.0, 0.0))
    monkeypatch.setenv(name, "1")
    wait_politely_if_busy()
    assert {other: os.environ.get(other) for other in CHOICES if other != name} == {
        other: None for other in CHOICES if other != name
    }
    assert os.environ[name] == "1"


def test_systems_without_a_load_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    wait_politely_if_busy()
    assert "OMP_WAIT_POLICY" not in os.environ
