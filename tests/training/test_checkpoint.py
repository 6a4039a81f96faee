"""A checkpoint is whole or it is not there, and the last good one is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.training.runs import trainer

from anyorder.errors import TrainingError
from anyorder.training import checkpoint, snapshot
from anyorder.training.checkpoint import load, newest, save, steps
from anyorder.training.shards import fill


def fill_with(text: str, folder: Path) -> None:
    (folder / "a.txt").write_text(text)
    (folder / "model").mkdir()
    (folder / "model" / "b.txt").write_text(text)


def saved(folder: Path, *numbers: int, keep: int = 10) -> None:
    for number in numbers:
        save(
            folder, number, {"number": number}, lambda beside, number=number: fill_with(str(number), beside), keep=keep
        )


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    saved(tmp_path, 2, 10)
    found = newest(tmp_path)
    assert found is not None
    assert (found.step, found.state) == (10, {"number": 10})
    assert newest(tmp_path / "nothing") is None


def test_only_the_newest_stay(tmp_path: Path) -> None:
    saved(tmp_path, 9, 10, 11, keep=2)
    assert steps(tmp_path) == [10, 11]


@pytest.mark.parametrize("damage", ["a.txt", "model/b.txt", "state.json"])
@pytest.mark.parametrize("how", ["gone", "cut", "changed"])
def test_damage_is_found_and_the_one_before_is_taken(tmp_path: Path, damage: str, how: str) -> None:
    saved(tmp_path, 1, 2)
    file = tmp_path / "step-2" / damage
    content = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-1] if how == "cut" else content.replace(b"2", b"3", 1))
    with pytest.raises(TrainingError, match=f"step-2 is damaged: {damage}"):
        load(tmp_path / "step-2")
    with pytest.warns(UserWarning, match="step-2 is damaged.*trying the one before"):
        found = newest(tmp_path)
    assert found is not None
    assert found.step == 1


def test_nothing_but_damage_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    (tmp_path / "step-1" / "state.json").write_text("[]")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(TrainingError, match=r"all checkpoints .* damaged"):
        newest(tmp_path)


def test_a_failed_write_leaves_no_trace(tmp_path: Path) -> None:
    saved(tmp_path, 1)

    def full(folder: Path) -> None:
        fill_with("2", folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(TrainingError, match=r"step 2 cannot be written: .*No space left.*step 1 is kept in"):
        save(tmp_path, 2, {}, full, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    shutil.copytree(tmp_path / "step-1", tmp_path / "step-2.part")
    (tmp_path / "step-2.part" / "a.txt").unlink()
    assert steps(tmp_path) == [1]
    saved(tmp_path, 2)
    assert load(tmp_path / "step-2").step == 2


def test_everything_is_synced_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    replace = checkpoint.os.replace
    monkeypatch.setattr(checkpoint, "_sync", lambda path: events.append(path.name))
    monkeypatch.setattr(checkpoint.os, "replace", lambda a, b: (events.append("replace"), replace(a, b)))
    saved(tmp_path, 1)
    before, after = events[: events.index("replace")], events[events.index("replace") + 1 :]
    assert sorted(before) == ["a.txt", "b.txt", "model", "state.json", "step-1.part"]
    assert after == [tmp_path.name]


def test_a_run_leaves_safetensors_and_json(tmp_path: Path) -> None:
    """Other programs can read all of it, and nothing in it can run."""
    run = trainer(tmp_path, ema=0.9)
    run.run()
    folder = run.checkpoints / "step-6"
    assert sorted(path.name for path in folder.iterdir()) == [
        "average.safetensors",
        "optimizer.safetensors",
        "parameters.safetensors",
        "state.json",
    ]
    for name, value in load_file(folder / "parameters.safetensors").items():
        assert torch.equal(value, run.network.get_parameter(name))
    assert load_file(folder / "optimizer.safetensors")["norm.step"] == 6
    assert json.loads(json.loads((folder / "state.json").read_text())["content"])["step"] == 6


def test_another_network_is_refused(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    run.run()
    found = newest(run.checkpoints)
    assert found is not None
    with pytest.raises(TrainingError, match=r"another network: parameters.safetensors does not fit"):
        snapshot.restore(found, {"parameters": {"norm": torch.zeros(3)}})


def test_values_of_another_dtype_are_kept(tmp_path: Path) -> None:
    tensors = {"mixed": {"a": torch.rand(3, dtype=torch.float64), "b": torch.rand(2).bfloat16()}}
    save(tmp_path, 1, {}, lambda folder: snapshot.write(folder, tensors), keep=1)
    targets = {"mixed": {name: torch.zeros_like(value) for name, value in tensors["mixed"].items()}}
    snapshot.restore(load(tmp_path / "step-1"), targets)
    for name, value in tensors["mixed"].items():
        assert torch.equal(targets["mixed"][name], value)
    fill(targets["mixed"]["a"], torch.ones(3))
    assert (targets["mixed"]["a"] == 1).all()
