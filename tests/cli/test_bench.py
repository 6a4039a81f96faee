"""`anyorder bench serve` against live servers."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.conftest import Cli
from tests.cli.scripted import scripted_model
from tests.server.live import Live, live

from anyorder.server.settings import ServerSettings


@pytest.fixture(scope="module")
def server() -> Generator[Live]:
    with live(scripted_model(), ServerSettings(api_keys=("secret",))) as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")


def test_a_sweep_as_json(cli: Cli, server: Live, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    records, picture = tmp_path / "records.jsonl", tmp_path / "sweep.png"
    done = cli(
        "bench", "serve", "--url", f"{server.url}/v1", "--concurrency", "1,3", "--requests", "5", "--json",
        "--max-tokens", "6", "--extra", '{"ignore_eos": true}', "--slo", "ttft=60,ttlt=60",
        "--records", str(records), "--plot", str(picture),
    )  # fmt: skip
    assert done.code == 0
    one, three = json.loads(done.out)["loads"]
    assert (one["load"], three["load"]) == ("concurrency 1", "concurrency 3")
    for figures in (one, three):
        assert (figures["requests"], figures["answered"], figures["errors"]) == (5, 5, {})
        assert figures["goodput_share"] == 1.0
        assert figures["tokens_per_s"] * figures["span_s"] == pytest.approx(30)
        assert figures["tokens_per_forward"]["p50"] == 1.0
        assert figures["unused_share"]["largest"] == 0.0
        assert figures["gap_s"]["count"] == 25
    assert len(records.read_text().splitlines()) == 11
    assert picture.stat().st_size > 5000


def test_a_table_and_what_went_wrong(cli: Cli, server: Live) -> None:
    """A temperature of -1 is refused, and counted."""
    done = cli("bench", "serve", "--url", f"{server.url}/v1", "--rate", "50,100", "--requests", "3", "--warm-up", "0",
               "--extra", '{"temperature": -1}')  # fmt: skip
    assert done.code == 0
    assert "rate 50: 0 of 3 answered" in done.out
    assert "rate 100: 3 failed: http_400" in done.err


def test_a_server_of_its_own(cli: Cli) -> None:
    done = cli(
        "bench", "serve", "--requests", "3", "--max-tokens", "4", "--surface", "completions", "--max-running", "2"
    )
    assert (done.code, "concurrency 1: 3 of 3 answered" in done.out) == (0, True)
    for head in ("first text, s", "last text, s", "gap, s", "tokens/s", "tokens/pass", "p50", "p90", "p95", "p99"):
        assert head in done.out


def test_prompts_from_a_file(cli: Cli, server: Live, tmp_path: Path) -> None:
    asked = tmp_path / "prompts.jsonl"
    asked.write_text('{"prompt": "a"}\n{"messages": [{"role": "user", "content": "b"}]}\n')
    done = cli("bench", "serve", "--url", f"{server.url}/v1", "--model", server.model, "--prompts", str(asked),
               "--duration", "0.2", "--max-tokens", "2", "--json")  # fmt: skip
    figures = json.loads(done.out)["loads"][0]
    assert figures["requests"] == figures["answered"] > 0


def test_who_does_not_answer_is_named(cli: Cli, server: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    done = cli("bench", "serve", "--url", "http://127.0.0.1:9/v1")
    assert done.code == 1
    assert "http://127.0.0.1:9/v1/ does not answer (connect)" in done.err
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    assert "does not answer (http_401)" in cli("bench", "serve", "--url", f"{server.url}/v1").err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rate", "1", "--concurrency", "1"], "give one of them"),
        (["--burstiness", "2"], "--burstiness is of arrivals; give --rate"),
        (["--concurrency", "1,x"], "`concurrency` must be numbers like 1,2,4"),
        (["--concurrency", "2,2"], "names a load twice"),
        (["--slo", "p99=3"], "known: ttft, ttlt, gap"),
        (["--plot", "a.pdf"], "--plot must end in .png or .svg"),
        (["--surface", "edit"], "`surface` must be chat or completions"),
        (["--extra", "[]"], "`extra` must be a JSON object"),
        (["--extra", '{"stream": false}'], "`extra` cannot hold stream"),
        (["--prompts", "a", "--random-words", "3"], "give one"),
        (["--url", "http://x/v1", "--dtype", "float32"], "--dtype is for a server started here"),
        (["--url", "http://x/v1", "--kv-bytes", "9"], "--kv-bytes is for a server started here"),
    ],
)
def test_flags_are_checked_before_anything_is_sent(cli: Cli, flags: list[str], message: str) -> None:
    done = cli("bench", "serve", *flags)
    assert (done.code, message in done.err) == (2, True)


def test_without_httpx2_the_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from anyorder.cli import bench_target

    monkeypatch.setattr(bench_target, "find_spec", lambda name: None)
    assert "anyorder bench serve needs httpx2: pip install 'anyorder[bench]'" in cli("bench", "serve").err
