"""`anyorder selftext`: a file of the model's own conversations that can be stopped and gone on with at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads
from tests.models.tiny_models import LLAMA, write_checkpoint
from tests.training.corpus import END, SIZE, TEXT_END, vocabulary, write_tokenizer

from anyorder.conversion import selftext, starters
from anyorder.conversion.selftext import Conversation
from anyorder.training.data.prepare import prepare
from anyorder.training.data.spec import IdsData

SMALL = ("--tokens", "60", "--prompt-tokens", "6", "--answer-tokens", "9", "--rows", "4")


@pytest.fixture
def model(tmp_path: Path, real_load: None) -> Path:
    """A random chat model on bytes."""
    raw = {**LLAMA, "vocab_size": SIZE, "max_position_embeddings": 400, "eos_token_id": TEXT_END}
    write_tokenizer(tmp_path / "model")
    return write_checkpoint(tmp_path / "model", raw)


def read(path: Path) -> list[dict[str, Any]]:
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_the_file_holds_what_the_model_says_and_can_be_trained_on(cli: Cli, tmp_path: Path, model: Path) -> None:
    out = tmp_path / "own.jsonl"
    result = cli("selftext", str(out), "--model", str(model), *SMALL)
    assert (result.code, result.out) == (0, "")
    found = read(out)
    tokens = sum(len(record["answer_ids"]) for record in found)
    assert 60 <= tokens < 60 + 9
    assert f"holds {len(found)} conversations, {tokens} tokens of answers" in result.err
    assert {record["seed"] for record in found} == {0}
    assert all(record["answer_ids"][-1] in (END, TEXT_END) or len(record["answer_ids"]) == 9 for record in found)
    prepared = prepare([IdsData(kind="ids", path=out)], vocabulary(tmp_path / "words"), length=64)
    assert prepared.sources[0].trainable == tokens


def test_the_same_command_goes_on_with_a_new_seed_and_repairs_the_file(
    cli: Cli, tmp_path: Path, model: Path, loads: Loads
) -> None:
    out = tmp_path / "own.jsonl"
    cli("selftext", str(out), "--model", str(model), *SMALL, "--seed", "3")
    lines = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(lines[0] + lines[1] + lines[2][:-8])
    result = cli("selftext", str(out), "--model", str(model), *SMALL, "--seed", "3")
    assert "cut off a half-written last line" in result.err
    found = read(out)
    assert out.read_bytes().startswith(lines[0] + lines[1])
    assert [record["seed"] for record in found] == [3, 3] + [4] * (len(found) - 2)
    assert len({tuple(record["prompt_ids"]) for record in found}) == len(found)
    again = cli("selftext", str(out), "--model", "nowhere", *SMALL)
    assert (again.code, again.err.count("name another file")) == (1, 1)
    done = cli("selftext", str(out), "--model", str(model), *SMALL)
    assert "raise --tokens for more" in done.err
    assert read(out) == found


def test_ctrl_c_leaves_whole_lines_and_says_how_to_go_on(
    cli: Cli, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        yield Conversation(prompt_ids=(1, 2), answer_ids=(3,))
        raise KeyboardInterrupt

    monkeypatch.setattr(selftext, "invent", stopped)
    out = tmp_path / "own.jsonl"
    result = cli("selftext", str(out), "--model", str(model))
    assert result.code == 130
    assert "holds 1 conversations, 1 tokens of answers; the same command goes on from there" in result.err.replace(
        "\n", ""
    )
    assert len(read(out)) == 1


def test_a_question_that_is_there_already_is_left_out(
    cli: Cli, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = [Conversation(prompt_ids=(1, 2), answer_ids=(3,))] * 2
    monkeypatch.setattr(
        selftext, "invent", lambda *_, **__: iter([*twice, Conversation(prompt_ids=(1,), answer_ids=(3,))])
    )
    out = tmp_path / "own.jsonl"
    assert cli("selftext", str(out), "--model", str(model), "--tokens", "2").code == 0
    assert [record["prompt_ids"] for record in read(out)] == [[1, 2], [1]]


def test_starters_of_a_file_begin_the_questions(cli: Cli, tmp_path: Path, model: Path) -> None:
    (tmp_path / "starters.txt").write_text("hello\n\nwell\n", "utf-8")
    out = tmp_path / "own.jsonl"
    cli("selftext", str(out), "--model", str(model), *SMALL, "--starters", str(tmp_path / "starters.txt"))
    assert {record["prompt"].removeprefix("user\n")[:4] for record in read(out)} == {"hell", "well"}


def test_our_own_starters_are_many_and_differ() -> None:
    texts = starters.texts()
    assert len(set(texts)) == len(starters.OPENINGS) * (len(starters.TOPICS) + 1)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--tokens", "0"], 2, "--tokens must be at least 1, got 0"),
        (["--rows", "-1"], 2, "--rows must be at least 1, got -1"),
        (["--answer-tokens", "900"], 2, "and the model's context is 400; lower --prompt-tokens or --answer-tokens"),
        (["--starters", "nowhere.txt"], 1, "cannot read nowhere.txt: No such file"),
    ],
)
def test_bad_values_are_one_line(
    cli: Cli, tmp_path: Path, model: Path, args: list[str], code: int, message: str
) -> None:
    result = cli("selftext", str(tmp_path / "own.jsonl"), "--model", str(model), *args)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "mine"}\n', "line 1: was not written by `anyorder selftext`; name another file"),
        ("no json\n", "line 1: no valid JSON"),
        ("notes without a newline", "ends in a line that is none of `anyorder selftext`"),
    ],
)
def test_a_file_of_someone_else_is_left_alone(cli: Cli, tmp_path: Path, content: str, message: str) -> None:
    out = tmp_path / "own.jsonl"
    out.write_text(content, "utf-8")
    result = cli("selftext", str(out))
    assert result.code == 1
    assert message in result.err
    assert out.read_text("utf-8") == content


def test_a_model_that_cannot_write_is_refused(cli: Cli, tmp_path: Path, model: Path) -> None:
    write_tokenizer(model, template=None)
    result = cli("selftext", str(tmp_path / "own.jsonl"), "--model", str(model))
    assert (result.code, result.err.count("no chat template")) == (1, 1)
