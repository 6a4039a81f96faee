"""The command line of a sweep: what is asked, what is refused, and the files that other commands load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from anyorder.cli.preset import with_preset


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


PROMPTS = """{"id": "a", "prompt": "colour?", "reference": "blue"}
{"prompt": "what?", "reference": ["dark", "light"]}
{"messages": [{"role": "user", "content": "how many?"}], "reference": 2}
"""


def test_one_prompt_and_one_line(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", "Explain entropy.", "--max-new-tokens", "16", "--steps", "8,4,2", "--block-length", "16")
    assert result.code == 0, result.err
    lines = [line.strip() for line in result.out.splitlines()]
    assert [line.split("  ")[0] for line in lines[1:4]] == ["steps 8", "steps 4", "steps 2"]
    assert all("1.00 [0.21, 1.00]" in line for line in lines[1:4])  # the scripted texts are the same
    assert any(line.startswith("Nothing is proven:") for line in lines)
    assert (tmp_path / "sweep-prompt" / "sweep.html").exists()


def test_prompts_with_references_and_a_preset(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(PROMPTS, "utf-8")
    result = cli("sweep", "--prompts", "mine.jsonl", "--max-new-tokens", "24", "--json")
    summary = json.loads(result.out)
    assert summary["rows"][0]["quality"]["value"] == pytest.approx(2 / 3)
    assert summary["fastest"] == "default"  # alone it is the best
    assert with_preset({}, preset=tmp_path / "sweep-mine.jsonl" / "preset.toml") == {"max_new_tokens": 24}
    records = json.loads((tmp_path / "sweep-mine.jsonl" / "sweep.json").read_text("utf-8"))["records"]
    (found,) = records.values()
    assert {key: record["score"] for key, record in found.items()} == {"a": 1, "2": 1, "3": 0}


def test_the_file_of_settings(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "[decoding]\nmode = 'block'\n[grid]\nthreshold = [0.9]\n[[setting]]\nname = 'four'\nsteps = 4\n", "utf-8"
    )
    result = cli("sweep", "a", "--settings", "s.toml", "--block-length", "8", "--max-new-tokens", "16", "--json")
    rows = json.loads(result.out)["rows"]
    assert [row["name"] for row in rows] == ["threshold 0.9", "four"]
    common = {"mode": "block", "block_length": 8, "max_new_tokens": 16}
    assert [row["params"] for row in rows] == [{**common, "threshold": 0.9}, {**common, "steps": 4}]


def test_the_tasks_are_listed(cli: Cli) -> None:
    assert "sudoku/any" in cli("sweep", "--task", "list").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "give a prompt, --prompts or --task; got none of them"),
        (["a", "--task", "sudoku/any"], "got a prompt and --task"),
        (["a", "--samples", "0"], "--samples must be at least 1, got 0"),
        (["a", "--check", "exact"], "--check exact compares with references, and the prompts of prompt have none"),
        (["--task", "sudoku"], "unknown task 'sudoku'; did you mean"),
        (["--task", "sudoku/any", "--check", "exact"], "a task has its own check"),
        (["--task", "sudoku/any", "--model", "./x"], "is for the model 'tasks', got --model ./x"),
        (["a", "--steps", "8,x"], "'8,x' is no list of numbers"),
        (["a", "--threshold", "2"], "`threshold` must be in [0, 1]"),
        (["a", "--budget", "0"], "`budget` must be between 0 and 1, got 0.0"),
        (["a", "--policy", "entropi"], "unknown policy 'entropi'; did you mean 'entropy'"),
        (["a", "--steps", "200", "--block-length", "8"], "setting 'default', prompt 'prompt': `steps` counts passes"),
        (["--prompts", "mine.jsonl"], "cannot read mine.jsonl"),
        (["a", "--settings", "s.toml"], "cannot read s.toml"),
        ([" "], "the prompt is empty"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, args: list[str], message: str) -> None:
    result = cli("sweep", *args)
    assert result.code in (1, 2)
    assert message in result.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "a", "reference": {}}', 'mine.jsonl, line 1: "reference" must be a text, a number, or a list'),
        ('{"prompt": "a", "reference": true}', "must be a text, a number, or a list"),
        ('{"prompt": "a"}\n{"prompt": "b", "reference": "c"}', 'has no "reference" and others have one'),
        ("", "holds no line"),
    ],
)
def test_damaged_prompts_are_told(cli: Cli, tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "mine.jsonl").write_text(line, "utf-8")
    result = cli("sweep", "--prompts", "mine.jsonl")
    assert (result.code, message in result.err) == (1, True), result.err


@pytest.mark.usefixtures("real_load")
def test_an_exam_is_graded_as_it_is_sat(cli: Cli) -> None:
    import anyorder
    from anyorder.exam import EXAMS, sit

    args = ["sweep", "--task", "sudoku/8-givens", "--steps", "8,1", "--samples", "12", "--full", "--json"]
    rows = json.loads(cli(*args).out)["rows"]
    model = anyorder.load("tasks")
    scores = [sit(model, EXAMS["sudoku/8-givens"], 12, steps=steps) for steps in (8, 1)]
    assert [row["quality"]["value"] for row in rows] == [score.share for score in scores]
    assert [row["passes"]["value"] for row in rows] == [score.passes for score in scores]


@pytest.mark.usefixtures("real_load")
def test_a_server_of_ours_is_swept_to_the_same_texts(cli: Cli, tmp_path: Path) -> None:
    from anyorder.api import load
    from anyorder.server.background import serving
    from anyorder.serving import ServiceSettings

    lines = [json.dumps({"prompt": f"?{a:2}+{b:2}=", "reference": f"{a + b}"}) for a, b in ((34, 7), (50, 60), (1, 2))]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines), "utf-8")
    args = ["sweep", "--prompts", "mine.jsonl", "--check", "exact", "--max-new-tokens", "3", "--steps", "3,1", "--json"]
    with serving(load("tasks"), engine=ServiceSettings(kv_bytes=1 << 20)) as server:
        there = cli(*args, "--url", f"{server.url}/v1", "--surface", "completions", "--out", "there")
    here = cli(*args, "--model", "tasks", "--out", "here")
    assert (there.code, here.code) == (0, 0), there.err + here.err
    texts = [
        [[record["text"] for record in found.values()] for found in records.values()]
        for name in ("there", "here")
        for records in [json.loads((tmp_path / name / "sweep.json").read_text("utf-8"))["records"]]
    ]
    assert texts[0] == texts[1]
    assert texts[0][0] == [" 41", "110", "  3"]
    passes = [[row["passes"]["value"] for row in json.loads(result.out)["rows"]] for result in (there, here)]
    assert passes == [[3, 1], [3, 1]]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--surface", "chat"], "--surface goes with --url"),
        (["--tries", "2"], "--tries goes with --url"),
        (["--judge-model", "m"], "--judge-model goes with --judge"),
        (["--url", "http://127.0.0.1:1/v1", "--dtype", "float32"], "cannot reach into --url"),
        (["--url", "http://127.0.0.1:1/v1", "--surface", "chats"], "`surface` must be chat or completions"),
        (["--url", "http://127.0.0.1:1/v1", "--tries", "0"], "`tries` must be at least 1"),
        (["--url", "http://127.0.0.1:1/v1", "--timeout", "0"], "`timeout` must be above 0 seconds"),
        (["--url", "http://127.0.0.1:1/v1"], "http://127.0.0.1:1/v1/ does not answer (connect)"),
        (["--url", "http://127.0.0.1:1/v1", "--seams"], "--seams asks a model that is loaded here"),
        (["--seams", "--cfg-scale", "1"], "seams are measured of what the model itself predicts"),
        (["--judge", "http://127.0.0.1:1/v1"], "http://127.0.0.1:1/v1/ does not answer (connect)"),
        (["--judge", "http://127.0.0.1:1/v1", "--judge-model", "m", "--check", "exact"], "are two ways to grade"),
    ],
)
def test_flags_of_endpoints_that_make_no_sense_are_refused(cli: Cli, args: list[str], message: str) -> None:
    result = cli("sweep", "a", *args)
    assert result.code in (1, 2)
    assert message in result.err
