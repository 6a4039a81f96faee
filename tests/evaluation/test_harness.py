"""lm-eval's own evaluation with our model; where lm-eval is not installed only that it says so."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import anyorder
from anyorder.errors import MissingExtra

INSTALLED = importlib.util.find_spec("lm_eval") is not None
TASK = """
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{sum}}}}"
doc_to_target: {target}
target_delimiter: ""
{more}
metric_list: [{{metric: {metric}}}]
"""
SUMS = [("?34+ 7=", " 41"), ("?99+ 1=", "100"), ("?12+12=", " 24")]


@pytest.mark.skipif(INSTALLED, reason="lm-eval is installed")
def test_without_lm_eval_the_extra_is_named() -> None:
    with pytest.raises(MissingExtra, match=r"pip install 'anyorder\[lm-eval\]'"):
        importlib.import_module("anyorder.evaluation.harness")


def evaluated(folder: Path, kind: str, model_args: str) -> list[dict[str, object]]:
    data = folder / "sums.jsonl"
    lines = [{"sum": text, "answers": [answer, " 57", " 13"], "answer": answer} for text, answer in SUMS]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    choice = kind == "multiple_choice"
    task = TASK.format(
        data=data,
        kind=kind,
        target="0" if choice else '"{{answer}}"',
        metric="acc" if choice else "exact_match",
        more='doc_to_choice: "{{answers}}"' if choice else 'generation_kwargs: {until: ["\\n"], max_gen_toks: 3}',
    )
    (folder / "sums.yaml").write_text(task, "utf-8")
    command = [
        sys.executable, "-m", "anyorder.evaluation.harness", "--model", "anyorder", "--model_args", model_args,
        "--batch_size", "2", "--tasks", "sums", "--include_path", str(folder), "--log_samples",
        "--output_path", str(folder / "out"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (samples,) = (folder / "out").rglob("samples_sums_*.jsonl")
    return [json.loads(line) for line in samples.read_text("utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="lm-eval is not installed")
def test_choices_are_ranked_by_our_scores(tmp_path: Path) -> None:
    samples = evaluated(tmp_path, "multiple_choice", "source=tasks,scoring=left_to_right")
    model = anyorder.load("tasks")
    for sample, (text, answer) in zip(samples, SUMS, strict=True):
        assert sample["acc"] == 1
        told = float(sample["resps"][0][0][0])  # pyright: ignore[reportIndexIssue]
        assert told == pytest.approx(
            anyorder.score(model, text + answer, mode="left_to_right", start=7).total, abs=1e-3
        )


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="lm-eval is not installed")
def test_answers_are_written_with_decode_parameters(tmp_path: Path) -> None:
    samples = evaluated(tmp_path, "generate_until", "source=tasks,steps=3")
    assert [sample["exact_match"] for sample in samples] == [1, 1, 1]
