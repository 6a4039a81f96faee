"""`anyorder generate` for one prompt: where the prompt comes from, what goes to which stream, what is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Cli, Loads
from tests.cli.scripted import chat_length, scripted_model, scripted_text

from anyorder.cli import generate
from anyorder.cli.files import read_stdin
from anyorder.errors import ModelError, ParameterError

SHORT = ("--max-new-tokens", "6")


def test_the_answer_goes_to_stdout_and_its_figures_to_stderr(cli: Cli) -> None:
    result = cli("generate", "Hi", *SHORT)
    assert result.code == 0
    assert result.out == scripted_text(chat_length("Hi"), 6) + "\n"
    line, cut = result.err.splitlines()
    for figure in ("6 passes", "1.00 tok/pass", " positions", "first 0.", "last 0.", " tok/s"):
        assert figure in line
    assert len(line) <= 80
    assert cut == "the answer was cut at --max-new-tokens"


def test_a_finished_answer_was_not_cut(cli: Cli, loads: Loads) -> None:
    loads.model.stop_ids = (ord("."),)
    result = cli("generate", "Hi", "--max-new-tokens", "40")
    assert len(result.err.splitlines()) == 1
    assert result.out.strip() == scripted_text(chat_length("Hi"), 40).split(".")[0].strip()


def test_a_bare_text_is_continued_without_template(cli: Cli) -> None:
    assert cli("generate", "Hi", "--raw", *SHORT).out == scripted_text(2, 6) + "\n"


def test_a_model_without_template_continues_the_text(cli: Cli, loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads.model.tokenizer, "has_chat_template", False)
    assert cli("generate", "Hi", *SHORT).out == scripted_text(2, 6) + "\n"
    refused = cli("generate", "Hi", "--system", "Be brief.", *SHORT)
    assert refused.code == 2
    assert "scripted has no chat template, so --system cannot be honoured" in refused.err


def test_a_prompt_comes_from_a_file_or_a_pipe_without_its_last_newline(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes("\ufeffSalut été\n".encode())
    expected = scripted_text(len("Salut été".encode()), 6) + "\n"
    assert cli("generate", "--prompt-file", str(file), "--raw", *SHORT).out == expected
    assert cli("generate", "-", "--raw", *SHORT, stdin="Salut été\n".encode()).out == expected


def test_a_system_message_stands_before_the_prompt(cli: Cli) -> None:
    length = len(b"system:Be brief.\n") + chat_length("Hi")
    assert cli("generate", "Hi", "--system", "Be brief.", *SHORT).out == scripted_text(length, 6) + "\n"


def test_holes_are_filled_and_nothing_is_written_behind_them(cli: Cli) -> None:
    result = cli("generate", "ab", "--hole", "3", "--then", "fg", "--hole", "2", "--json")
    answer = json.loads(result.out)
    assert answer["prompt_text"] == "ab" + scripted_text(2, 3) + "fg" + scripted_text(7, 2)
    assert answer["holes"] == [scripted_text(2, 3), scripted_text(7, 2)]
    assert answer["text"] == ""
    assert [slot["slot"] for slot in answer["trace"]] == [2, 3, 4, 7, 8]
    assert cli("generate", "ab", "--hole", "3", "--then", "fg").out == "ab" + scripted_text(2, 3) + "fg\n"


def test_a_text_can_begin_with_a_hole(cli: Cli) -> None:
    result = cli("generate", "--hole", "2", "--then", "cd", "--json")
    assert json.loads(result.out)["prompt_text"].endswith("cd")


def test_json_has_everything_and_is_all_that_stdout_carries(cli: Cli) -> None:
    result = cli("generate", "Hi", "--json", "--threshold", "0.5", "--block-length", "4", "--max-new-tokens", "8")
    answer = json.loads(result.out)
    assert result.err == ""
    assert answer["model"] == "scripted"
    assert answer["text"] == scripted_text(chat_length("Hi"), 8)
    assert answer["finish_reason"] == "length"
    stats = answer["stats"]
    assert {"passes", "tokens_per_forward", "positions", "time_to_first_s", "time_to_last_s"} <= stats.keys()
    assert stats["tokens_per_forward"] == stats["tokens"] / stats["passes"] > 1
    assert {"tokens_per_second", "model_s", "policy_s", "other_s", "drift_max", "drift_mean"} <= stats.keys()
    assert [slot["text"] for slot in answer["trace"]] == list(answer["text"])
    assert all(0 <= slot["confidence"] <= 1 and slot["pass"] >= 0 for slot in answer["trace"])


def test_json_is_ascii_so_that_no_terminal_or_encoding_minds(cli: Cli, loads: Loads) -> None:
    loads.model = scripted_model("é\x1b[31m")
    result = cli("generate", "x", "--json", "--raw", "--max-new-tokens", "12")
    assert result.out.isascii()
    assert "\x1b" not in result.out
    assert "\x1b[31mé" in json.loads(result.out)["text"]


def test_load_flags_reach_load(cli: Cli, loads: Loads) -> None:
    cli("generate", "Hi", "--model", "some/model", "--revision", "v2", "--dtype", "float32", "--device", "cpu",
        "--mask-token-id", "9", "--no-shift", "--offline", *SHORT)  # fmt: skip
    given = {"revision": "v2", "dtype": "float32", "device": "cpu", "mask_token_id": 9, "shift": False, "offline": True}
    assert loads.calls == [("some/model", given)]
    cli("generate", "Hi", *SHORT)
    assert loads.calls[1] == (None, {})


def test_drift_is_a_figure_when_it_is_measured(cli: Cli) -> None:
    result = cli(
        "generate", "Hi", "--mode", "block", "--block-length", "4", "--cache", "block", "--measure-drift", *SHORT
    )
    assert result.code == 0, result.err
    assert "drift of the logits by cache block: max 0, mean 0" in result.err


BAD_USAGE = [
    ([], "no prompt; write it behind the command"),
    ([""], "the prompt is empty"),
    ([" \n"], "the prompt is empty"),
    (["--raw", "-"], "the prompt is empty"),
    (["a", "--prompt-file", "b"], "given twice"),
    (["a", "b"], "unexpected extra argument"),
    (["a", "--hole", "0"], "--hole must be at least 1 token, got 0"),
    (["a", "--then", "b"], "0 --hole and 1 --then: each --then follows one --hole"),
    (["a", "--hole", "1", "--hole", "2"], "2 --hole and 0 --then"),
    (["a", "--system", "b", "--raw"], "--system needs the chat template"),
    (["a", "--system", "b", "--hole", "2"], "--system needs the chat template"),
    (["a\udcff"], "the prompt is not valid UTF-8"),
    (["a", "--threshold", "1.5"], "`threshold` must be in [0, 1]"),
    (["a", "--threshold", "x"], "--threshold"),
    (["a", "--steps", "0"], "`steps` must be a whole number of at least 1, got 0"),
    (["a", "--policy", "treshold"], "did you mean 'threshold'?"),
    (["a", "--mode", "diagonal"], "`mode` must be one of auto, causal, full, block, got 'diagonal'"),
    (["a", "--policy", "threshold", "--steps", "4"], "policy 'threshold' does not read `steps`"),
    (["a", "--mode", "causal", "--threshold", "0.5"], "`threshold` has no meaning in mode 'causal'"),
    (["a", "--mode", "full"], "cannot decode in mode 'full'"),
    (["a", "--steps", "9", "--block-length", "8"], "a block has 8 slots"),
    (["a", "--stop-ids", "x"], "'x' is no list of token ids; write them as 5,6"),
    (["a", "--stop-ids", "99999"], "99999"),
    (["a", "--logit-bias", "5"], "'5' is no list of pairs; write them as 5=1,6=2"),
    (["a", "--forced", "0=1=2"], "'0=1=2' is no list of pairs"),
    (["a", "--max-new-tokens", "0"], "nothing to decode"),
    (["a", "--tresh", "1"], "No such option: --tresh"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "message"), BAD_USAGE, ids=[" ".join(args) or "nothing" for args, _ in BAD_USAGE])
def test_wrong_usage_is_one_line_and_code_2(cli: Cli, args: list[str], message: str) -> None:
    result = cli("generate", *args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_bad_file_is_one_line_that_names_it_and_code_1(cli: Cli, tmp_path: Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"ok\nol\xe9")
    for path, message in (
        (tmp_path / "none.txt", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (latin, "line 2: byte 0xe9 is not UTF-8"),
    ):
        result = cli("generate", "--prompt-file", str(path))
        assert (result.code, result.out) == (1, "")
        assert str(path) in result.err
        assert message in result.err
        assert len(result.err.splitlines()) == 1


def test_no_input_behind_a_dash_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.cli.files.sys.stdin", None)
    with pytest.raises(ParameterError, match="pipe a text into it"):
        read_stdin()


def test_a_prompt_longer_than_the_context_is_one_line(cli: Cli) -> None:
    result = cli("generate", "a" * 600)
    assert result.code == 1
    assert "shorten them by" in result.err


def test_bad_usage_is_told_before_a_model_is_loaded(cli: Cli, loads: Loads) -> None:
    cli("generate", "a", "--threshold", "2")
    cli("generate", "")
    assert loads.calls == []


def test_a_failed_load_is_one_line_and_a_defect_is_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(error: Exception) -> None:
        def load(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("anyorder.load", load)

    broken(ModelError("two\nlines \x1b[2J"))
    result = cli("generate", "a")
    assert (result.code, result.err) == (1, "error: two lines ␛[2J\n")
    broken(OSError(28, "No space left on device", "cache/x"))
    assert cli("generate", "a").err == "error: No space left on device: cache/x\n"
    broken(RuntimeError("out of memory"))
    result = cli("generate", "a")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "unexpected RuntimeError: out of memory (ANYORDER_DEBUG=1 shows where)" in result.err
    monkeypatch.setenv("ANYORDER_DEBUG", "1")
    assert "Traceback" in cli("generate", "a").err
    broken(KeyboardInterrupt())  # type: ignore[arg-type]
    assert cli("generate", "a").code == 130


def test_the_examples_of_the_help_are_accepted(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "Hi"}\n')
    lines = [line for line in generate.EXAMPLES.splitlines() if "anyorder " in line and "--image" not in line]
    assert len(lines) >= 3  # --image: see test_images.py
    for line in lines:
        args = shlex.split(line.split("anyorder ", 1)[1])
        result = cli(*args, stdin=b"a diff")
        assert result.code == 0, f"{line}: {result.err}"
