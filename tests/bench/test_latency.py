"""Kinds of requests in turn, others behind them: nothing is lost, and all goes on where it was."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.bench.fake import Fake, Line, Refusal, answer, text

from anyorder.bench import latency as latency_module
from anyorder.bench.client import Target
from anyorder.bench.latency import BACKGROUND, Background, Case, run_cases
from anyorder.bench.latency_plot import plot_latency
from anyorder.bench.latency_summary import latency
from anyorder.bench.prompts import Workload
from anyorder.bench.records import RecordFile
from anyorder.bench.run import Amount
from anyorder.errors import ParameterError

real_sleep = asyncio.sleep
PLAIN = Case(name="text", workload=Workload(model="m"))
SHOWN = Case(name="snapshots", workload=Workload(model="m", extra={"diffusing": True}))
OTHERS = Background(streams=2, workload=Workload(model="m", extra={"user": "other"}))


def frame(content: str) -> dict[str, Any]:
    return {**text(content), "diffusion_meta": {"diffusion_content": True, "diffusion_progress": 0}}


def scripts(body: dict[str, Any]) -> Sequence[Line] | Refusal:
    """Snapshots for those who ask for them."""
    if body.get("diffusing"):
        return [(0.5, frame("a_c")), (1.0, frame("abd")), (0.0, "data: [DONE]\n\n")]
    return answer(0.25, 0.5)


def measured(
    monkeypatch: pytest.MonkeyPatch, fake: Fake, file: RecordFile, *cases: Case, requests: int = 3, **options: Any
) -> None:
    monkeypatch.setattr(latency_module, "connect", lambda target: fake.client())
    amount = Amount(requests=requests, warm_up=0)
    try:
        asyncio.run(run_cases(Target(url="http://fake/v1/"), cases, amount, file, clock=fake.clock, **options))
    finally:
        file.close()


def test_each_kind_is_read_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, file = Fake(scripts), RecordFile(None, {})
    measured(monkeypatch, fake, file, PLAIN, SHOWN)
    assert [(r.snapshots, list(r.pieces)) for r in file.of("text")] == [(False, ["a", "a"])] * 3
    assert [(r.snapshots, list(r.pieces)) for r in file.of("snapshots")] == [(True, ["a_c", "abd"])] * 3
    added, shown = (latency(name, file.of(name)) for name in ("text", "snapshots"))
    assert added.first_s is not None
    assert (added.first_s.p50, added.changed_answers, added.snapshots) == (0.25, 0, 0)
    assert shown.half_s is not None
    assert (shown.half_s.p50, shown.changed_answers, shown.snapshots) == (1.5, 3, 3)


def test_the_same_is_asked_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(scripts)
    measured(monkeypatch, fake, RecordFile(None, {}), PLAIN, SHOWN)
    shown = [body for body in fake.bodies if "diffusing" in body]
    plain = [body for body in fake.bodies if "diffusing" not in body]
    assert [{**body, "diffusing": True} for body in plain] == shown


def test_others_ask_until_the_case_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, file = Fake(scripts), RecordFile(None, {})
    measured(monkeypatch, fake, file, PLAIN, requests=4, background=OTHERS)
    others = file.of(BACKGROUND)
    assert len(file.of("text")) == 4
    assert len(others) == sum(body.get("user") == "other" for body in fake.bodies) >= 4
    assert sorted(record.index for record in others) == list(range(len(others)))


def test_who_is_refused_in_the_background_is_counted_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a server that refuses at once would be asked thousands of times."""
    monkeypatch.setattr(latency_module, "PAUSE_S", 1e-3)
    fake = Fake(lambda body: Refusal(503) if "user" in body else answer(0.25))
    file = RecordFile(None, {})
    measured(monkeypatch, fake, file, PLAIN, background=OTHERS)
    assert {record.error for record in file.of(BACKGROUND)} == {"http_503"}
    assert [record.error for record in file.of("text")] == [None] * 3


def test_a_run_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, fake = tmp_path / "records.jsonl", Fake(scripts)

    def stop(load: str, record: Any) -> None:
        if (load, record.index) == ("snapshots", 1):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, fake, RecordFile(path, {}), PLAIN, SHOWN, told=stop)
    kept = RecordFile(path, {})
    assert [record.load for record in kept.records] == ["text", "snapshots", "snapshots"]
    measured(monkeypatch, fake, kept, PLAIN, SHOWN, background=OTHERS)
    again = RecordFile(path, {})
    again.close()
    assert [record.index for record in again.of("snapshots")] == [0, 1, 2]
    assert sorted(record.index for record in again.of("text")) == [0, 1, 2]
    asked = len(fake.bodies)
    measured(monkeypatch, fake, RecordFile(path, {}), PLAIN, SHOWN, background=OTHERS)
    assert len(fake.bodies) == asked  # there was nothing left to measure
    assert list(again.of("snapshots")[2].pieces) == ["a_c", "abd"]


def test_a_user_thinks_between_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time to think is none of the answer's, and the same before turns of both kinds."""
    fake, file, slept = Fake(lambda body: answer(0.5)), RecordFile(None, {}), list[float]()

    async def sleep(seconds: float) -> None:
        if seconds:
            slept.append(seconds)
            fake.now += seconds
        await real_sleep(0)

    monkeypatch.setattr(latency_module.asyncio, "sleep", sleep)
    voice, realtime = (Case(name=name, workload=PLAIN.workload, think_s=2.0) for name in ("voice", "realtime"))
    measured(monkeypatch, fake, file, voice, PLAIN, realtime, requests=300)
    assert len(slept) == 600
    assert slept[::2] == slept[1::2]
    assert sum(slept) / 600 == pytest.approx(2.0, rel=0.2)
    assert {record.first_s for record in file.records} == {0.5}
    other = Case(name="voice", workload=Workload(model="m", seed=1), think_s=2.0)
    assert other.pause_s(0) != voice.pause_s(0)
    with pytest.raises(ParameterError, match="`think` must be at least 0, got -1"):
        Case(name="voice", workload=PLAIN.workload, think_s=-1.0)


def test_kinds_take_turns_and_each_is_first_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    file = RecordFile(None, {})
    measured(monkeypatch, Fake(scripts), file, PLAIN, SHOWN, requests=4)
    order = [(record.index, record.load) for record in file.records]
    assert order == [
        (0, "text"), (0, "snapshots"), (1, "snapshots"), (1, "text"),
        (2, "text"), (2, "snapshots"), (3, "snapshots"), (3, "text"),
    ]  # fmt: skip


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_it_is_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    file = RecordFile(None, {})
    measured(monkeypatch, Fake(scripts), file, PLAIN, SHOWN)
    records = {name: file.of(name) for name in ("text", "snapshots")}
    failed = latency("voice", [])
    plot_latency(
        {**records, "voice": []}, [*(latency(*each) for each in records.items()), failed], tmp_path / f"a{suffix}"
    )
    assert (tmp_path / f"a{suffix}").stat().st_size > 5000
