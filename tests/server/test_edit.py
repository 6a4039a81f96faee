"""Next edits and updates as Inception's clients ask for them and read them: Continue, Zed, CodeGPT."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.cli.scripted import ByteTokenizer, scripted_model
from tests.server.live import Live, live
from tests.server.test_refusals import refused
from tests.server.test_streams import frames

from anyorder.models.loaded import LoadedModel
from anyorder.server.wire.tags import apply_task, edit_task

EDIT, APPLY = "/v1/edit/completions", "/v1/apply/completions"
ZED = (
    "<|recently_viewed_code_snippets|>\n<|recently_viewed_code_snippet|>\ncode_snippet_file_path: a.py\nA = 1\n"
    "<|/recently_viewed_code_snippet|>\n<|/recently_viewed_code_snippets|>\n"
    "<|current_file_content|>\ncurrent_file_path: b.py\nimport a\n<|code_to_edit|>\ndef f(<|cursor|>):\n    pass\n"
    "<|/code_to_edit|>\nf()\n<|/current_file_content|>\n<|edit_diff_history|>\n-def g():\n+def f():\n"
    "<|/edit_diff_history|>\n"
)
UPDATE = (
    "<|original_code|>\na = 1\nb = 2\n<|/original_code|>\n\n"
    "<|update_snippet|>\n// ... existing code ...\nb = 3\n<|/update_snippet|>"
)


CONTEXT = 2048


def writes(text: str, question: str) -> LoadedModel:
    """A model that writes this text behind the question and the fence that is opened for it."""
    length = len(ByteTokenizer().encode_chat([{"role": "user", "content": question}])) + len("```\n")
    script = text.ljust(CONTEXT)
    model = scripted_model(script[-length:] + script[:-length])  # it writes character c at column c
    return replace(model, config=replace(model.config, max_context=CONTEXT))


def asked(server: Live, path: str, content: str, **changes: Any) -> httpx2.Response:
    body = {"model": server.model, "messages": [{"role": "user", "content": content}], **changes}
    with server.http() as http:
        return http.post(path, json=body)


def zed_reads(answer: httpx2.Response) -> str:
    """As its client does: strict about the message, and an optional fence around the text."""
    message = answer.json()["choices"][0]["message"]
    assert message.get("tool_calls", []) is not None
    text = message["content"]
    return text.removeprefix("```\n").removesuffix("\n```")


def continue_reads(text: str) -> str:
    """As its provider does."""
    return text[text.index("```\n") + 4 : text.rindex("\n\n```")]


def codegpt_reads(text: str) -> str:
    return text[text.index("```\n") + 4 : text.rindex("\n```")]


NEW = "def f(x):\n    return x\n"


@pytest.fixture(scope="module")
def editor() -> Generator[Live]:
    with live(writes(NEW + "```\nthat is all", edit_task(ZED).question)) as server:
        yield server


def test_zed_runs_unchanged(editor: Live) -> None:
    answer = asked(editor, EDIT, ZED, stream=False)
    assert zed_reads(answer) == NEW
    body = answer.json()
    assert (body["object"], body["choices"][0]["finish_reason"], body["warning"]) == ("edit.completion", "stop", None)
    assert body["usage"]["completion_tokens"] == len(NEW)
    assert (body["usage"]["reasoning_tokens"], body["usage"]["cached_input_tokens"]) == (0, 0)


def test_continue_runs_unchanged(editor: Live) -> None:
    """It streams, with penalties, and looks for an empty line before the fence."""
    options = {"max_tokens": 300, "temperature": 0.0, "presence_penalty": 1.5, "stop": ["<|endoftext|>"]}
    pieces = frames(asked(editor, EDIT, ZED, **options, stream=True).text)
    text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
    assert continue_reads(text) == NEW.removesuffix("\n")
    assert codegpt_reads(text) == NEW
    assert text == asked(editor, EDIT, ZED).json()["choices"][0]["message"]["content"]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces if piece["choices"][0]["finish_reason"]] == [
        "stop"
    ]
    assert pieces[0]["choices"][0]["delta"]["role"] == "assistant"
    assert {piece["object"] for piece in pieces} == {"edit.completion.chunk"}
    assert "presence_penalty 1.5 not applied" in pieces[0]["warning"]


def test_snapshots_end_with_the_answer(editor: Live) -> None:
    shown = frames(asked(editor, EDIT, ZED, diffusing=True).text)
    texts = [frame["choices"][0]["delta"]["content"] for frame in shown]
    assert texts[-1] == f"```\n{NEW}\n```"
    assert all(text.startswith("```\n") for text in texts)


def test_an_edit_that_was_cut_off_says_so(editor: Live) -> None:
    choice = asked(editor, EDIT, ZED, max_tokens=10).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("```\n" + NEW[:10], "length")
    pieces = frames(asked(editor, EDIT, ZED, max_completion_tokens=10, stream=True).text)
    assert "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces) == "```\n" + NEW[:10]


@pytest.mark.parametrize(
    ("written", "expected"),
    [("a = 1\nb = 3\n```", "a = 1\nb = 3\n"), ("a\n\n```", "a\n\n"), ("```", "\n"), ("x```", "x\n")],
)
def test_an_update_is_merged(written: str, expected: str) -> None:
    with live(writes(written, apply_task(UPDATE).question)) as server:
        body = asked(server, APPLY, UPDATE, max_tokens=60).json()
        pieces = frames(asked(server, APPLY, UPDATE, max_tokens=60, stream=True).text)
    assert (body["object"], body["choices"][0]["message"]["content"]) == ("apply.completion", expected)
    assert "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces) == expected


def test_the_model_is_asked_in_words_without_the_cursor_mark() -> None:
    task = edit_task(ZED)
    assert task.question.startswith("A developer is editing b.py.")
    assert "cursor is in its line 1, behind 'def f('" in task.question
    for part in ("A = 1", "import a", "def f():\n    pass\n", "\nf()\n", "+def f():"):
        assert part in task.question
    assert "<|" not in task.question
    assert (task.fence, task.ends_line) == ("```", True)


def test_a_region_keeps_its_end_and_fences_do_not_end_it() -> None:
    text = "<|code_to_edit|>\n````\nx\n````<|/code_to_edit|>"
    task = edit_task(text)
    assert (task.fence, task.ends_line) == ("`````", False)
    assert "editing a file" in task.question
    assert "cursor" not in task.question
    empty = edit_task(
        "<|current_file_content|>\n<|code_to_edit|>\n<|cursor|>\n<|/code_to_edit|>\n<|/current_file_content|>"
    )
    assert "The region is empty." in empty.question


USER = {"role": "user", "content": ZED}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [USER, USER]}, "messages"),
    ({"messages": [{**USER, "role": "system"}]}, "messages[0].role"),
    ({"messages": [{**USER, "content": "make it better"}]}, "messages[0].content"),
    ({"messages": [{**USER, "content": "<|/code_to_edit|><|code_to_edit|>"}]}, "messages[0].content"),
    ({"messages": [{**USER, "content": None}]}, "messages[0].content"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
    ({"temperature": -1}, "temperature"),
    ({"presence_penalty": 3}, "presence_penalty"),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"logprobs": True}, "logprobs"),
]


@pytest.mark.parametrize(("changes", "param"), WRONG, ids=lambda value: str(value)[:60])
def test_a_wrong_parameter_of_an_edit_is_named(editor: Live, changes: dict[str, Any], param: str) -> None:
    with editor.http() as http:
        answer = http.post(EDIT, json={"model": editor.model, "messages": [USER], **changes})
    assert refused(answer)["param"] == param


def test_an_update_needs_both_parts(editor: Live) -> None:
    error = refused(asked(editor, APPLY, "<|original_code|>a<|/original_code|>"))
    assert (error["param"], "<|update_snippet|>" in error["message"]) == ("messages[0].content", True)


def test_the_lists_of_models_name_the_editor(editor: Live) -> None:
    with editor.http() as http:
        for surface in ("edit", "apply", "fim"):
            assert http.get(f"/v1/{surface}/completions/models").json()["data"][0]["id"] == editor.model
