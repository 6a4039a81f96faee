"""A run: everything is asked once, kept at once, and gone on with where it stopped."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.bench.fake import Fake, Refusal, answer

from anyorder.bench import run as run_module
from anyorder.bench.client import Target
from anyorder.bench.load import Closed, Load
from anyorder.bench.prompts import BUILT_IN, Range, Workload
from anyorder.bench.records import RecordFile
from anyorder.bench.run import Amount, missing, run
from anyorder.errors import DataError, ParameterError, Unavailable

TARGET = Target(url="http://fake/v1/")


def measured(
    monkeypatch: pytest.MonkeyPatch,
    fake: Fake,
    file: RecordFile,
    *loads: Load,
    workload: Workload | None = None,
    told: Any = None,
    **amount: Any,
) -> None:
    monkeypatch.setattr(run_module, "connect", lambda target: fake.client())
    options = {"told": told} if told else {}
    asked = workload or Workload(model="m")
    try:
        asyncio.run(run(TARGET, asked, loads, Amount(**amount), file, clock=fake.clock, **options))
    finally:
        file.close()


def test_every_request_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third is refused: it is a record, and nobody sends it again."""
    fake = Fake(lambda body: Refusal(503) if body["max_tokens"] % 3 == 0 else answer(0.5, 0.5))
    file = RecordFile(None, {})
    workload = Workload(model="m", max_tokens=Range(1, 9))
    measured(monkeypatch, fake, file, Closed(2), Closed(3), workload=workload, requests=20, warm_up=0)
    assert len(fake.bodies) == 40
    for name in ("concurrency 2", "concurrency 3"):
        records = file.of(name)
        assert sorted(record.index for record in records) == list(range(20))
        failed = {record.index for record in records if record.error == "http_503"}
        assert failed == {n for n in range(20) if workload.ask(n).body["max_tokens"] % 3 == 0} != set()
        assert all(record.first_s is not None for record in records if record.error is None)


def test_the_warm_up_is_not_recorded_and_finds_out_who_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(lambda body: answer(0.5))
    file = RecordFile(None, {})
    measured(monkeypatch, fake, file, Closed(1), requests=2, warm_up=3)
    assert (len(fake.bodies), len(file.records)) == (5, 2)
    with pytest.raises(Unavailable, match=r"http://fake/v1/ does not answer \(http_401\): no key"):
        measured(monkeypatch, Fake(lambda body: Refusal(401, "no key")), file, Closed(1), requests=2)


def test_a_run_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, settings = tmp_path / "records.jsonl", {"seed": 1}
    fake = Fake(lambda body: answer(0.5))

    def stop(load: str, record: Any) -> None:
        if record.index == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, fake, RecordFile(path, settings), Closed(1), requests=9, warm_up=0, told=stop)
    path.write_text(path.read_text() + '{"load": "concurrency 1", "ind')  # the machine went down within a line
    file = RecordFile(path, settings)
    assert (len(file.records), file.session) == (5, 1)
    measured(monkeypatch, fake, file, Closed(1), requests=9, warm_up=0)
    again = RecordFile(path, settings)
    again.close()
    assert sorted(record.index for record in again.records) == list(range(9))
    assert [record.session for record in again.records] == [0] * 5 + [1] * 4
    assert len(fake.bodies) == 10  # the one on its way was asked again


def test_records_of_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    RecordFile(path, {"seed": 1}).close()
    with pytest.raises(DataError, match="was begun with other settings"):
        RecordFile(path, {"seed": 2})
    RecordFile(path, {"seed": 2}, fresh=True).close()
    path.write_text(path.read_text() + '{"load": 1}\n')
    with pytest.raises(DataError, match="holds a line that is no record"):
        RecordFile(path, {"seed": 2})


def test_a_duration_counts_what_was_spent_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Requests of half a second: eight in four seconds, and none more when the command runs again."""
    fake = Fake(lambda body: answer(0.5))
    for _ in range(2):
        file = RecordFile(tmp_path / "records.jsonl", {})
        measured(monkeypatch, fake, file, Closed(1), requests=None, duration_s=4.0, warm_up=0)
        assert [record.index for record in file.records] == list(range(8))


def test_the_number_of_a_request_decides_what_it_asks() -> None:
    workload = Workload(model="m", words=Range(3, 9), max_tokens=Range(5, 50), seed=4, extra={"top_p": 0.5})
    bodies = [workload.ask(number, "l").body for number in range(30)]
    assert bodies == [workload.ask(number, "l").body for number in range(30)]
    lengths = [len(body["messages"][0]["content"].split()) for body in bodies]
    assert (min(lengths), max(lengths)) == (3, 9)
    assert all(5 <= body["max_tokens"] <= 50 and body["top_p"] == 0.5 and body["stream"] for body in bodies)
    other = workload.ask(3, "other").body
    assert (other["messages"] != bodies[3]["messages"], other["max_tokens"]) == (True, bodies[3]["max_tokens"])
    plain = Workload(model="m", surface="completions").ask(len(BUILT_IN) + 1).body
    assert plain["prompt"] == BUILT_IN[1]
    assert workload.settings() != Workload(model="m").settings()


def test_what_is_missing() -> None:
    assert list(missing({0, 2, 9}, 5)) == [1, 3, 4]


def test_amounts_and_ranges_are_checked() -> None:
    with pytest.raises(ParameterError, match="the run would have no end"):
        Amount(requests=None)
    with pytest.raises(ParameterError, match="`duration_s` must be above 0, got 0"):
        Amount(duration_s=0)
    with pytest.raises(ParameterError, match="`warm_up` must be at least 0, got -1"):
        Amount(warm_up=-1)
    for wrong in ("0", "9:3", "x", "1:2:3", ""):
        with pytest.raises(ParameterError, match="`max_tokens` must be a whole number or a range like 16:256"):
            Range.parse(wrong, "max_tokens")
    with pytest.raises(ParameterError, match="messages cannot go to completions"):
        Workload(model="m", surface="completions", prompts=[[{"role": "user", "content": "a"}]])
