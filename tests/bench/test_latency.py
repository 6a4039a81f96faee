"""Kinds of requests in turn, others behind them: nothing is lost, and all goes on where it was."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.bench.fake import Fake, Line, Refusal, answer, text
from tests.bench.test_load import Time

from anyorder.bench import latency as latency_module
from anyorder.bench import load as load_module
from anyorder.bench.client import Target
from anyorder.bench.latency import Background, Case, behind, run_cases
from anyorder.bench.latency_plot import plot_latency
from anyorder.bench.latency_summary import latency
from anyorder.bench.load import Turns
from anyorder.bench.prompts import Ask, Workload
from anyorder.bench.records import RecordFile
from anyorder.bench.run import Amount
from anyorder.errors import ParameterError

PLAIN = Case(load=Turns("text"), workload=Workload(model="m"))
SHOWN = Case(load=Turns("snapshots"), workload=Workload(model="m", extra={"diffusing": True}))
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
    assert [(r.load, r.snapshots, list(r.pieces)) for r in file.records] == (
        [("text", False, ["a", "a"])] * 3 + [("snapshots", True, ["a_c", "abd"])] * 3
    )
    added, shown = (latency(name, file.of(name)) for name in ("text", "snapshots"))
    assert added.first_s is not None
    assert (added.first_s.p50, added.changed_answers, added.snapshots) == (0.25, 0, 0)
    assert shown.half_s is not None
    assert (shown.half_s.p50, shown.changed_answers, shown.snapshots) == (1.5, 3, 3)


def test_the_same_is_asked_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(scripts)
    measured(monkeypatch, fake, RecordFile(None, {}), PLAIN, SHOWN)
    first, second = fake.bodies[:3], fake.bodies[3:]
    assert [{**body, "diffusing": True} for body in first] == second


def test_others_ask_until_the_case_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, file = Fake(scripts), RecordFile(None, {})
    measured(monkeypatch, fake, file, PLAIN, requests=4, background=OTHERS)
    others = file.of(behind("text"))
    assert len(file.of("text")) == 4
    assert len(others) == sum(body.get("user") == "other" for body in fake.bodies) >= 4
    assert sorted(record.index for record in others) == list(range(len(others)))


def test_who_is_refused_in_the_background_is_counted_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a server that refuses at once would be asked thousands of times."""
    monkeypatch.setattr(latency_module, "PAUSE_S", 1e-3)
    fake = Fake(lambda body: Refusal(503) if "user" in body else answer(0.25))
    file = RecordFile(None, {})
    measured(monkeypatch, fake, file, PLAIN, background=OTHERS)
    found = latency("text", file.of("text"), file.of(behind("text")))
    assert found.background is not None
    assert (found.background.answered, set(found.background.errors)) == (0, {"http_503"})
    assert found.served.answered == 3


def test_a_run_that_was_stopped_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, fake = tmp_path / "records.jsonl", Fake(scripts)

    def stop(load: str, record: Any) -> None:
        if (load, record.index) == ("snapshots", 1):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, fake, RecordFile(path, {}), PLAIN, SHOWN, told=stop)
    kept = RecordFile(path, {})
    assert [record.load for record in kept.records] == ["text"] * 3 + ["snapshots"] * 2
    measured(monkeypatch, fake, kept, PLAIN, SHOWN, background=OTHERS)
    again = RecordFile(path, {})
    again.close()
    assert [record.index for record in again.of("snapshots")] == [0, 1, 2]
    assert not again.of(behind("text"))  # there was nothing left to measure
    assert list(again.of("snapshots")[2].pieces) == ["a_c", "abd"]


def test_a_user_thinks_between_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    time, dues = Time(), list[float]()
    monkeypatch.setattr(load_module.asyncio, "sleep", time.sleep)

    async def send(ask: Ask, due: float) -> None:
        dues.append(due)
        assert due == time.now  # the time to think is none of the answer's
        time.now += 10.0

    def asked(load: Turns, until: float = 1e9) -> list[float]:
        dues.clear()
        time.now = 0.0
        asyncio.run(load.run((Ask(index=n, body={}) for n in range(400)), send, time.clock, until=until))
        return list(dues)

    turns = asked(Turns("voice", 2.0))
    pauses = [turns[0], *(after - before - 10 for before, after in itertools.pairwise(turns))]
    assert min(pauses) > 0
    assert sum(pauses) / len(pauses) == pytest.approx(2.0, rel=0.2)
    assert asked(Turns("realtime", 2.0)) == turns
    assert asked(Turns("voice", 2.0, seed=1)) != turns
    assert asked(Turns("text"))[:3] == [0.0, 10.0, 20.0]
    assert len(asked(Turns("text"), until=35.0)) == 4
    with pytest.raises(ParameterError, match="`think_s` must be at least 0, got -1"):
        Turns("voice", -1.0)


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
