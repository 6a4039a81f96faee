"""`anyorder generate --input --output`: every line is answered once, whatever happens in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads, Result
from tests.cli.scripted import chat_length, scripted_text

import anyorder
from anyorder.cli.jsonl import Output
from anyorder.errors import DataError

LINES: list[dict[str, Any]] = [
    {"prompt": "a"},
    {"id": "second", "prompt": "longer prompt"},
    {"messages": [{"role": "user", "content": "x"}]},
    {"id": 40, "prompt": "é"},
    {"prompt": "last"},
]
KEYS = [1, "second", 3, 40, 5]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in LINES), "utf-8")
    return source, tmp_path / "out.jsonl"


def run_batch(cli: Cli, files: tuple[Path, Path], *args: str) -> Result:
    return cli("generate", "--input", str(files[0]), "--output", str(files[1]), "--max-new-tokens", "6", *args)


def answers(files: tuple[Path, Path]) -> dict[Any, dict[str, Any]]:
    text = files[1].read_text("utf-8")
    assert text.endswith("\n")
    records = [json.loads(line) for line in text.splitlines()]
    assert len({record["id"] for record in records}) == len(records), "a line was answered twice"
    return {record["id"]: record for record in records}


def test_every_line_gets_the_answer_that_it_would_get_alone(cli: Cli, files: tuple[Path, Path]) -> None:
    result = run_batch(cli, files, "--batch-size", "2")
    assert (result.code, result.out) == (0, "")
    assert list(answers(files)) == KEYS
    expected = [scripted_text(chat_length(text), 6) for text in ("a", "longer prompt", "x", "é", "last")]
    assert [record["text"] for record in answers(files).values()] == expected
    assert answers(files)[1]["stats"]["passes"] == 6


def test_raw_prompts_get_no_template(cli: Cli, files: tuple[Path, Path]) -> None:
    assert run_batch(cli, files, "--raw").code == 0
    assert answers(files)["second"]["text"] == scripted_text(len("longer prompt"), 6)


def test_a_second_run_answers_only_what_is_left(cli: Cli, files: tuple[Path, Path], loads: Loads) -> None:
    run_batch(cli, files)
    whole = files[1].read_bytes()
    lines = whole.splitlines(keepends=True)
    files[1].write_bytes(lines[1] + lines[3])
    result = run_batch(cli, files)
    assert "2 of 5 are answered already" in result.err
    assert set(answers(files)) == set(KEYS)
    assert files[1].read_bytes().startswith(lines[1] + lines[3])
    loads.calls.clear()
    assert run_batch(cli, files).code == 0
    assert loads.calls == []  # nothing left: no model needed


def test_a_half_written_last_line_is_answered_again(cli: Cli, files: tuple[Path, Path]) -> None:
    run_batch(cli, files)
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[:-20])
    result = run_batch(cli, files)
    assert "cut off a half-written last line" in result.err
    assert set(answers(files)) == set(KEYS)


def test_ctrl_c_leaves_whole_lines_and_says_how_to_go_on(
    cli: Cli, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Output.write

    def interrupted(self: Output, key: Any, answer: dict[str, Any]) -> None:
        write(self, key, answer)
        if len(self.done) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Output, "write", interrupted)
    result = run_batch(cli, files, "--batch-size", "2")
    assert result.code == 130
    assert f"interrupted: 3 of 5 are in {files[1]}; the same command goes on from there" in result.err
    assert list(answers(files)) == KEYS[:3]
    monkeypatch.undo()
    monkeypatch.setattr(anyorder, "load", Loads())
    assert run_batch(cli, files).code == 0
    assert list(answers(files)) == KEYS


def test_other_settings_are_refused_on_the_same_output(cli: Cli, files: tuple[Path, Path]) -> None:
    run_batch(cli, files, "--banned-ids", "1,2", "--logit-bias", "3=1")
    assert run_batch(cli, files, "--logit-bias", "3=1", "--banned-ids", "1,2").code == 0
    result = run_batch(cli, files, "--temperature", "0.5")
    assert result.code == 1
    assert "was made with" in result.err
    assert "'temperature': 0.5" in result.err


@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"id": 1}\n', "[1]\n", '{"id": 1, "te\n'])
def test_a_file_of_someone_else_is_left_alone(cli: Cli, files: tuple[Path, Path], content: str) -> None:
    files[1].write_text(content)
    result = run_batch(cli, files)
    assert result.code == 1
    assert str(files[1]) in result.err
    assert files[1].read_text() == content


def test_answers_of_another_input_are_refused(cli: Cli, files: tuple[Path, Path]) -> None:
    run_batch(cli, files)
    files[0].write_text('{"prompt": "a"}\n')
    result = run_batch(cli, files)
    assert result.code == 1
    assert "which the input lacks; name another --output" in result.err


BAD_LINES = [
    ("", "holds no line"),
    ("{", "line 1: no valid JSON"),
    ('{"prompt": "a"}\n\n{"prompt": 3}', 'line 3: "prompt" must be a text that is not empty'),
    ('{"prompt": ""}', 'line 1: "prompt" must be a text that is not empty'),
    ('{"text": "a"}', 'line 1: needs "prompt" or "messages"; it has text'),
    ("{}", "it has nothing"),
    ("[]", "line 1: needs a JSON object, got list"),
    ('{"prompt": "a", "messages": []}', 'has both "prompt" and "messages"'),
    ('{"messages": []}', '"messages" must be a list of'),
    ('{"messages": [{"role": "user"}]}', '"messages" must be a list of'),
    ('{"messages": [{"role": "user", "content": "a", "name": "b"}]}', '"messages" must be a list of'),
    ('{"prompt": "a", "id": 1.5}', '"id" must be a string or a whole number, got 1.5'),
    ('{"prompt": "a", "id": "x"}\n{"prompt": "a", "id": "x"}', "line 2: id 'x' stands on an earlier line"),
    ('{"prompt": "a"}\n{"prompt": "a", "id": 1}', "line 2: id 1 stands on an earlier line"),
    ("[" * 100_000, "line 1: no valid JSON"),
]


@pytest.mark.parametrize(("content", "message"), BAD_LINES, ids=[content[:40] or "empty" for content, _ in BAD_LINES])
def test_a_bad_line_is_named_before_a_model_is_loaded(
    cli: Cli, files: tuple[Path, Path], loads: Loads, content: str, message: str
) -> None:
    files[0].write_text(content)
    result = run_batch(cli, files)
    assert result.code == 1
    assert str(files[0]) in result.err
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert loads.calls == []
    assert not files[1].exists()


def test_a_line_that_does_not_fit_the_context_is_named_before_the_first_answer(
    cli: Cli, files: tuple[Path, Path]
) -> None:
    files[0].write_text('{"prompt": "a"}\n{"id": "big", "prompt": "' + "a" * 600 + '"}\n')
    result = run_batch(cli, files)
    assert result.code == 1
    assert "id 'big' of the input: the prompt has" in result.err
    assert files[1].read_bytes() == b""


def test_flags_that_do_not_belong_together(cli: Cli, files: tuple[Path, Path]) -> None:
    for args, message in (
        (["a"], "drop the prompt"),
        (["--json"], "drop --json"),
        (["--system", "x"], "drop --system"),
        (["--batch-size", "0"], "--batch-size must be at least 1, got 0"),
    ):
        result = run_batch(cli, files, *args)
        assert result.code == 2
        assert message in result.err
    assert "--output is missing" in cli("generate", "--input", "x").err
    assert "--input is missing" in cli("generate", "--output", "x").err
    assert "--input and --output is missing" in cli("generate", "--batch-size", "3").err


def test_an_output_that_cannot_be_written_is_one_line(cli: Cli, files: tuple[Path, Path], tmp_path: Path) -> None:
    for path, message in ((tmp_path, "Is a directory"), (tmp_path / "no" / "out.jsonl", "No such file or directory")):
        result = run_batch(cli, (files[0], path))
        assert result.code == 1
        assert f"cannot write {path}: {message}" in result.err


def test_what_is_written_is_in_the_file_before_the_next_answer(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with Output(path, {}) as output:
        output.write("k", {"text": "\ud800"})
        assert json.loads(path.read_bytes())["id"] == "k"
    with pytest.raises(DataError, match=r"was made with \{\}, now \{'x': 1\}"):
        Output(path, {"x": 1})
