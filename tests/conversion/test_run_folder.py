"""What the report takes from the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path

from anyorder.conversion.run_folder import LONGEST, RunFolder, read_run


def write_log(folder: Path, losses: list[float], tail: str = "") -> None:
    lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in enumerate(losses, start=1)]
    (folder / "log.jsonl").write_text("".join(lines) + tail, "utf-8")


def test_a_run_shows_its_recipe_manifest_card_and_losses(tmp_path: Path) -> None:
    write_log(tmp_path, [3.0, 2.5, 2.0])
    (tmp_path / "recipe.toml").write_text('[optimiser]\nname = "adamw"\n', "utf-8")
    (tmp_path / "notes.txt").write_text("not ours", "utf-8")
    run = read_run(tmp_path)
    assert run.files == {"recipe.toml": '[optimiser]\nname = "adamw"\n'}
    assert list(run.losses) == [(1, 3.0), (2, 2.5), (3, 2.0)]


def test_a_run_says_what_it_was_made_from(tmp_path: Path) -> None:
    write_log(tmp_path, [3.0])
    assert read_run(tmp_path).base is None
    for recipe, base in [('[model]\nsource = "./qwen"\n', "./qwen"), ("seed = 1", None), ("no [toml", None)]:
        (tmp_path / "recipe.toml").write_text(recipe, "utf-8")
        assert read_run(tmp_path).base == base


def test_a_half_written_line_ends_the_curve(tmp_path: Path) -> None:
    write_log(tmp_path, [3.0, 2.5], tail='{"step": 3, "lo')
    assert list(read_run(tmp_path).losses) == [(1, 3.0), (2, 2.5)]


def test_lines_without_a_loss_are_left_out(tmp_path: Path) -> None:
    """A trainer may log evaluations or a model card's events between the steps."""
    write_log(tmp_path, [3.0], tail='{"step": 1, "held_out": 4.0}\n{"step": 2, "loss": 2.0}\n')
    assert list(read_run(tmp_path).losses) == [(1, 3.0), (2, 2.0)]


def test_a_long_log_is_averaged(tmp_path: Path) -> None:
    count = 2 * LONGEST
    write_log(tmp_path, [float(step % 2) for step in range(count)])
    losses = read_run(tmp_path).losses
    assert len(losses) == LONGEST
    assert {loss for _, loss in losses} == {0.5}
    assert losses[0] == (1.5, 0.5)
    assert losses[-1][0] == count - 0.5


def test_a_folder_without_a_log_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a checkpoint's card", "utf-8")
    assert read_run(tmp_path) == RunFolder()
    assert read_run(tmp_path / "missing") == RunFolder()
