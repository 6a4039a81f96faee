"""`anyorder serve`: flags, the file before them, keys, and a real process that a signal ends."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads

from anyorder.cli import serve
from anyorder.params import DecodeParams
from anyorder.server.keys import Limits
from anyorder.server.settings import ServerSettings
from anyorder.serving.settings import ServiceSettings


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, loads: Loads) -> list[Any]:
    """What would have been served."""
    seen: list[Any] = []
    monkeypatch.setattr(serve, "run", lambda *parts: seen.extend(parts))
    return seen


def test_every_setting_has_a_flag() -> None:
    names = {flag.name for flag in serve.SERVER_FLAGS}
    assert names == {field.name for field in fields(ServerSettings)} - {"api_keys", "keys"}
    assert {flag.name for flag in serve.ENGINE_FLAGS} == {field.name for field in fields(ServiceSettings)}


def test_flags_go_before_the_file_and_the_file_before_the_defaults(cli: Cli, served: list[Any], tmp_path: Path) -> None:
    config, keys = tmp_path / "serve.toml", tmp_path / "keys.txt"
    config.write_text(
        '[server]\nport = 9000\nname = "mine"\napi_keys = ["a"]\ncors_origins = ["http://one"]\n'
        "[engine]\nmax_running = 3\n[model]\noffline = true\n[decoding]\ntemperature = 0.5\nlogit_bias = { 7 = 1.0 }\n",
        encoding="utf-8",
    )
    keys.write_text("b\n\n c \n", encoding="utf-8")
    done = cli("serve", "--config", str(config), "--api-keys-file", str(keys), "--port", "9001", "--max-queued", "5",
               "--max-new-tokens", "7", "--cors-origins", "http://two")  # fmt: skip
    assert done.code == 0, done.err
    assert served[1:] == [
        ServerSettings(port=9001, name="mine", api_keys=("a", "b", "c"), cors_origins=("http://two",)),
        ServiceSettings(max_running=3, max_queued=5),
        DecodeParams(temperature=0.5, logit_bias={7: 1.0}, max_new_tokens=7),
    ]


def test_keys_have_limits_of_their_own(cli: Cli, served: list[Any], tmp_path: Path) -> None:
    config = tmp_path / "serve.toml"
    config.write_text(
        "[server]\nhost = '0.0.0.0'\nrequests_per_minute = 60\n[[keys]]\nkey = 'a'\nname = 'tests'\n"
        "tokens_per_minute = 1000\n[[keys]]\nkey = 'b'\nrequests_per_minute = 0\n",
        encoding="utf-8",
    )
    assert cli("serve", "--config", str(config), "--concurrent-requests", "4").code == 0
    settings = served[1]
    assert [key.limits(settings.limits) for key in settings.keys] == [
        Limits(requests_per_minute=60, tokens_per_minute=1000, concurrent_requests=4),
        Limits(requests_per_minute=0, tokens_per_minute=0, concurrent_requests=4),
    ]
    assert settings.keys[0].name == "tests"
    assert "'a'" not in repr(settings.keys)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[serve]\nport = 1", "unknown table 'serve'; did you mean 'server'?"),
        ("[server]\nprot = 1", "unknown 'prot' in [server]; did you mean 'port'?"),
        ("[server]\nport = 'x'", "`port` must be a whole number from 0, got 'x'"),
        ("[server]\nport = 70000", "`port` must be"),
        ("[server]\napi_keys = ['']", "`api_keys` must be a list of texts"),
        ("[server]\nhost = '0.0.0.0'", "can be reached by others, and there is no API key"),
        ("[server]\ndrain_s = 0", "`drain_s` must be seconds, above 0"),
        ("[engine]\nmax_running = 0", "`max_running` must be"),
        ("[decoding]\nthreshold = 2", "`threshold` must be in [0, 1]"),
        (
            "[server]\nrequests_per_minute = -1",
            "`requests_per_minute` must be a whole number from 0 (no limit), got -1",
        ),
        ("[[keys]]\nkey = ''", "`key` of [[keys]] must be a text, not empty"),
        (
            "[[keys]]\nkey = 'a'\ntoken_per_minute = 1",
            "unknown 'token_per_minute' in [[keys]]; did you mean 'tokens_per_minute'?",
        ),
        ("[[keys]]\nkey = 'a'\ntokens_per_minute = true", "`tokens_per_minute` must be a whole number"),
        ("[keys]\nkey = 'a'", "`keys` must be tables, each headed [[keys]]"),
        ("server = 1", "'server' must be a table"),
        ("[server", "is no TOML"),
    ],
)
def test_a_wrong_file_is_one_line(cli: Cli, served: list[Any], tmp_path: Path, text: str, told: str) -> None:
    config = tmp_path / "serve.toml"
    config.write_text(text, encoding="utf-8")
    done = cli("serve", "--config", str(config))
    assert done.code == 2
    assert told in done.err
    assert done.err.count("\n") == 1
    assert served == []


def test_a_missing_package_is_named(cli: Cli, served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else object())
    done = cli("serve")
    assert (done.code, served) == (1, [])
    assert done.err == "error: anyorder serve needs uvicorn: pip install 'anyorder[server]'\n"


def test_traces_need_an_extra_and_a_whole_url(cli: Cli, served: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are known before the model is loaded."""
    done = cli("serve", "--otlp-endpoint", "localhost:4318")
    assert done.code == 2
    assert "`otlp_endpoint` must be the whole URL, as http://localhost:4318/v1/traces" in done.err
    monkeypatch.delitem(sys.modules, "anyorder.server.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    done = cli("serve", "--otlp-endpoint", "http://localhost:4318/v1/traces")
    assert (done.code, served) == (1, [])
    assert done.err.endswith("pip install 'anyorder[otel]'\n")
