"""`anyorder bench latency` against live servers."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Cli
from tests.cli.scripted import scripted_model
from tests.server.live import Live, live

from anyorder.bench.latency_summary import latency
from anyorder.bench.records import Record
from anyorder.cli.bench_latency_table import remarks
from anyorder.server.settings import ServerSettings


@pytest.fixture(scope="module")
def server() -> Generator[Live]:
    with live(scripted_model(), ServerSettings()) as running:
        yield running


def test_all_kinds_as_json(cli: Cli, server: Live, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    records, picture = tmp_path / "records.jsonl", tmp_path / "latency.png"
    done = cli(
        "bench", "latency", "--url", f"{server.url}/v1", "--requests", "3", "--json", "--max-tokens", "12",
        "--voice-tokens", "5", "--think", "0", "--extra", '{"ignore_eos": true}', "--load", "1",
        "--records", str(records), "--plot", str(picture),
    )  # fmt: skip
    assert done.code == 0
    told = json.loads(done.out)
    kinds = {each["served"]["load"]: each for each in told["kinds"]}
    assert told["background"]["answered"] == told["background"]["requests"] > 0
    assert list(kinds) == ["text", "snapshots", "voice", "realtime"]
    for name, figures in kinds.items():
        assert (figures["served"]["requests"], figures["served"]["answered"]) == (3, 3)
        assert figures["snapshots"] == (3 if name == "snapshots" else 0)
        assert figures["first_s"]["p50"] <= figures["clause_s"]["p50"] <= figures["last_s"]["p50"]
        assert figures["changed_answers"] == 0  # a causal model decides from the left
    texts = {
        (line["load"], line["index"]): line["pieces"][-1] if line["snapshots"] else "".join(line["pieces"])
        for line in map(json.loads, records.read_text().splitlines()[1:])
    }
    for number in range(3):
        assert texts["text", number] == texts["snapshots", number]
        assert (len(texts["text", number]), len(texts["voice", number])) == (12, 5)
        assert texts["voice", number] == texts["realtime", number]
    assert picture.stat().st_size > 5000


def test_a_table_and_what_went_wrong(cli: Cli, server: Live) -> None:
    done = cli("bench", "latency", "--url", f"{server.url}/v1", "--requests", "2", "--kinds", "text,voice", "--think",
               "0", "--max-tokens", "4", "--load", "1")  # fmt: skip
    assert done.code == 0
    for head in (
        "p50",
        "first clause, s",
        "words/chunk",
        "text: 2 of 2 answered",
        "never changed",
        "failed",
        "background: ",
    ):
        assert head in done.out
    done = cli("bench", "latency", "--url", f"{server.url}/v1", "--requests", "2", "--kinds", "text", "--warm-up", "0",
               "--extra", '{"temperature": -1}')  # fmt: skip
    assert (done.code, "text: 0 of 2 answered" in done.out) == (0, True)
    assert "text: 2 failed: http_400" in done.err


def test_a_server_that_does_not_know_snapshots_is_named() -> None:
    plain = Record(load="snapshots", index=0, session=0, due_s=0, sent_s=0, first_s=1, last_s=1, pieces=["a"], tokens=1)
    assert remarks(latency("snapshots", [plain])) == [
        "snapshots: 1 answers came as text that is added to; this server may not know `diffusing`"
    ]
    assert remarks(latency("snapshots", [replace(plain, snapshots=True)])) == []


def test_a_server_of_its_own(cli: Cli) -> None:
    done = cli("bench", "latency", "--requests", "2", "--max-tokens", "4", "--kinds", "snapshots", "--max-running", "2")
    assert (done.code, "snapshots: 2 of 2 answered" in done.out) == (0, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--kinds", "text,text"], "`kinds` must be some of text, snapshots, voice, realtime, each once"),
        (["--kinds", "events"], "`kinds` must be some of"),
        (["--kinds", "text", "--voice-tokens", "4"], "--voice-tokens is of voice turns"),
        (["--think", "-1"], "`think` must be at least 0"),
        (["--load", "-1"], "`load` must be at least 0"),
        (["--requests", "0"], "`requests` must be above 0"),
        (["--extra", '{"diffusing": true}'], "`extra` cannot hold diffusing, which --kinds sets"),
        (["--plot", "a.pdf"], "--plot must end in .png or .svg"),
        (["--url", "http://x/v1", "--dtype", "float32"], "--dtype is for a server started here"),
    ],
)
def test_flags_are_checked_before_anything_is_sent(cli: Cli, flags: list[str], message: str) -> None:
    done = cli("bench", "latency", *flags)
    assert (done.code, message in done.err) == (2, True)
