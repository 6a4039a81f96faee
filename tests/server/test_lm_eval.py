"""lm-eval's own client against the server: log-likelihoods, perplexities and texts of tasks that lie on the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.server.live import Live, live

import anyorder
from anyorder.models.loaded import LoadedModel
from anyorder.serving import ServiceSettings

pytest.importorskip("lm_eval")
pytestmark = pytest.mark.slow

CAPITALS = {
    "The capital of France is": [" Paris", " Rome", " the city of Berlin"],
    "Question: How many legs does a spider have?\nAnswer:": [" eight", " six", " one hundred and two"],
    "Two plus two is": [" four.", " five.", " a fish, naïve 日本 fish."],
}
CHOICES = """
task: capitals
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""
ROLLING = """
task: rolling
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{question}}}}"
metric_list: [{{metric: word_perplexity}}]
"""
WRITING = """
task: writing
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: ""
generation_kwargs: {{until: ["\\n\\n"], max_gen_toks: 8, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return anyorder.load("smollm2")


@pytest.fixture(scope="module")
def server(model: LoadedModel) -> Generator[Live]:
    with live(model, engine=ServiceSettings(kv_bytes=256 << 20)) as running:
        yield running


@pytest.fixture(scope="module")
def folder(model: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tasks, their documents, and the tokenizer."""
    folder = tmp_path_factory.mktemp("tasks")
    documents = [{"question": question, "choices": choices} for question, choices in CAPITALS.items()]
    data = folder / "documents.jsonl"
    data.write_text("".join(json.dumps(document) + "\n" for document in documents), "utf-8")
    for name, task in {"capitals": CHOICES, "rolling": ROLLING, "writing": WRITING}.items():
        (folder / f"{name}.yaml").write_text(task.format(data=data), "utf-8")
    assert model.tokenizer is not None
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text(model.tokenizer.files.backend.to_str(), "utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": model.tokenizer.eos}
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def evaluated(
    server: Live, folder: Path, task: str, out: Path, *, batch_size: int = 1, **model_args: Any
) -> list[dict[str, Any]]:
    """What lm-eval's command says of every document."""
    told = {
        "model": server.model,
        "base_url": f"{server.url}/v1/completions",
        "tokenizer": folder / "tokenizer",
        "tokenizer_backend": "huggingface",
        **model_args,
    }
    command = [
        sys.executable, "-m", "lm_eval", "--model", "local-completions", "--tasks", task, "--include_path", str(folder),
        "--model_args", ",".join(f"{name}={value}" for name, value in told.items()),
        "--output_path", str(out), "--log_samples", "--batch_size", str(batch_size),
    ]  # fmt: skip
    env = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    (samples,) = out.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in samples.read_text("utf-8").splitlines()]


def ours(model: LoadedModel, context: list[int], continuation: list[int]) -> tuple[float, bool]:
    """Log-likelihood of a continuation, and whether every token of it is the likeliest one."""
    scores = anyorder.score(model, [*context, *continuation], start=len(context), top_logprobs=1)
    scored = scores.tokens[len(context) :]
    return scores.total, all(token.id == token.alternatives[0].id for token in scored)


@pytest.mark.parametrize("how", [{}, {"batch_size": 3}, {"num_concurrent": 4}], ids=["alone", "batch", "concurrent"])
def test_log_likelihoods_are_those_of_python(
    server: Live, model: LoadedModel, folder: Path, tmp_path: Path, how: dict[str, int]
) -> None:
    samples = evaluated(server, folder, "capitals", tmp_path, **how)
    assert model.tokenizer is not None
    encode = model.tokenizer.encode_text
    greedy = 0
    for sample in samples:
        question, choices = sample["doc"]["question"], sample["doc"]["choices"]
        context = encode(question)
        for choice, ((told, is_greedy),) in zip(choices, sample["resps"], strict=True):
            expected, best = ours(model, context, encode(question + choice)[len(context) :])
            assert float(told) == pytest.approx(expected, abs=2e-3)
            assert str(is_greedy) == str(best)
            greedy += best
    assert len(samples) == len(CAPITALS)
    assert 0 < greedy < 9, "both answers must occur, or this test tells nothing of them"


def test_rolling_log_likelihoods_are_those_of_python(
    server: Live, model: LoadedModel, folder: Path, tmp_path: Path
) -> None:
    tokenizer = model.tokenizer
    assert tokenizer is not None
    assert tokenizer.eos is not None
    prefix = tokenizer.token_id(tokenizer.eos)
    assert prefix is not None
    for sample in evaluated(server, folder, "rolling", tmp_path):
        (told,) = sample["resps"][0]
        expected, _ = ours(model, [prefix], tokenizer.encode_text(sample["doc"]["question"]))
        assert float(told) == pytest.approx(expected, abs=2e-3)


def test_texts_are_those_of_python(server: Live, model: LoadedModel, folder: Path, tmp_path: Path) -> None:
    for sample in evaluated(server, folder, "writing", tmp_path):
        (told,) = sample["resps"][0]
        expected = anyorder.generate(model, sample["doc"]["question"], max_new_tokens=8).text
        assert told == expected.partition("\n\n")[0]
