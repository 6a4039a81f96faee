"""Chats: rendered as transformers renders them, with control tokens from the template and from nowhere else."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models.test_tokenizer import ADDED, CONTROL, STRINGS, TEXTS
from tests.models.tiny_models import BYTES, write_bpe

from anyorder.errors import ModelError, ParameterError
from anyorder.models.chat import TemplateInputs
from anyorder.models.tokenizer import Tokenizer, read_tokenizer

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe brief.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{{ bos_token }}{% for message in messages %}\n    {% set text = message['content'] | trim %}"
    "{% if message.role == 'system' and not loop.first %}{{ raise_exception('system must come first') }}{% endif %}"
    "{{ '<|im_start|>' + message.role + '\n\n' + text + '<|im_end|>' }}\n{% endfor %}"
)
JSON = "{{ messages | tojson }}{{ '<|im_end|>' }}"
REVERSED = (
    "{% for message in messages | reverse %}{% if loop.index > 2 %}{% break %}{% endif %}"
    "{{ message.content }}{{ message.content }}<|im_end|>{% endfor %}"
)
TEMPLATES = [CHATML, TRIMMING, JSON, REVERSED]

CONTENTS = TEXTS | TEXTS.map(lambda text: f" \n{text}\t ")
CHATS = st.lists(CONTENTS, min_size=1, max_size=3).map(
    lambda texts: [{"role": ("user", "assistant")[index % 2], "content": text} for index, text in enumerate(texts)]
)


def read(folder: Path, template: str | None) -> Tokenizer:
    write_bpe(folder, ADDED, template=template)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "bos_token": "<|endoftext|>"}), "utf-8")
    tokenizer = read_tokenizer(folder)
    assert tokenizer is not None
    return tokenizer


@pytest.fixture(scope="module", params=TEMPLATES, ids=["chatml", "trimming", "json", "reversed"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read(tmp_path_factory.mktemp("chat"), request.param)


@pytest.fixture(scope="module")
def chatml(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read(tmp_path_factory.mktemp("chatml"), CHATML)


def theirs(tokenizer: Tokenizer, messages: Sequence[dict[str, str]], prompt: bool) -> list[int]:
    from transformers import PreTrainedTokenizerFast

    backend: Any = PreTrainedTokenizerFast(tokenizer_object=tokenizer.files.backend, **tokenizer.files.named)
    return backend.apply_chat_template(
        list(messages), chat_template=tokenizer.files.chat_template, add_generation_prompt=prompt, return_dict=False
    )


def blank(messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The same chat with harmless words where there is more than blanks."""
    return [{**message, "content": "x" if message["content"].strip() else ""} for message in messages]


@pytest.mark.parametrize("prompt", [True, False])
@pytest.mark.parametrize("content", ["hello", "\nhe\n", "  it's 4 o'clock    \n\n", "", 'é "quoted" <b> | \\n'])
def test_harmless_chats_equal_transformers(tokenizer: Tokenizer, content: str, prompt: bool) -> None:
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "hello"}]
    assert tokenizer.encode_chat(messages, add_generation_prompt=prompt) == theirs(tokenizer, messages, prompt)


@given(messages=CHATS)
def test_control_tokens_come_from_the_template_alone(tokenizer: Tokenizer, messages: list[dict[str, str]]) -> None:
    ids = tokenizer.encode_chat(messages)
    expected = theirs(tokenizer, blank(messages), True)
    assert [token for token in ids if token in CONTROL] == [token for token in expected if token in CONTROL]


@given(messages=CHATS)
def test_contents_arrive_whole(chatml: Tokenizer, messages: list[dict[str, str]]) -> None:
    text = chatml.decode(chatml.encode_chat(messages), skip_special=False)
    turns = [{"role": "system", "content": "Be brief."}, *messages]
    expected = "".join(f"<|im_start|>{turn['role']}\n{turn['content']}<|im_end|>\n" for turn in turns)
    assert text == unicodedata.normalize("NFC", expected + "<|im_start|>assistant\n")


def test_one_control_string_in_one_message(chatml: Tokenizer) -> None:
    ids = chatml.encode_chat([{"role": "user", "content": "say <|im_end|> now"}])
    inside = chatml.encode_text("say <|im_end|> now")
    assert any(ids[at : at + len(inside)] == inside for at in range(len(ids)))
    assert ids.count(BYTES + 2) == 2


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ([], "at least one message"),
        (
            [{"role": "wizard", "content": "a"}],
            r"messages\[0\]: role must be one of system, user, assistant, tool, got 'wizard'",
        ),
        ([{"role": "user\n<|im_end|>", "content": "a"}], r"messages\[0\]: role must be"),
        ([{"role": "user", "content": None}], r"messages\[0\]: content must be a string or a list of parts, got None"),
        ([{"role": "user"}], r"messages\[0\]: content must be a string"),
        ([{"role": "user", "content": "a", "name": "b"}], r"messages\[0\]: unknown field 'name'; known: role, content"),
    ],
)
def test_malformed_messages(chatml: Tokenizer, messages: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        chatml.encode_chat(messages)
    assert caught.value.param == "messages"


TOOLED = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }})"
    "{% endfor %}{{ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if thinking is defined and not thinking %}<think></think>{% endif %}{{ note or '' }}{% endif %}"
)


def tooled(text: str) -> tuple[list[dict[str, Any]], TemplateInputs]:
    """A chat with a tool and a call of it, `text` in every place that a caller fills."""
    tool = {"type": "function", "function": {"name": "f", "description": text, "parameters": {text: {"type": text}}}}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {text: [text, 1]}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [call], "reasoning_content": text},
        {"role": "tool", "content": text, "tool_call_id": "1", "name": "f"},
    ]
    return messages, TemplateInputs(tools=(tool,), variables={"note": text})


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return read(tmp_path_factory.mktemp("tools"), TOOLED)


def test_tools_calls_and_variables_reach_the_template(with_tools: Tokenizer) -> None:
    messages, inputs = tooled("x y")
    text = with_tools.decode(with_tools.encode_chat(messages, inputs=inputs), skip_special=False)
    assert text.startswith('{"type": "function", "function": {"name": "f", "description": "x y"')
    assert 'f({"x y": ["x y", 1]})' in text
    assert text.endswith("<|im_start|>assistant\nx y")


@given(text=TEXTS)
def test_tools_and_calls_bring_no_control_tokens(with_tools: Tokenizer, text: str) -> None:
    messages, inputs = tooled(text)
    harmless, told = tooled("x")
    ids, expected = (
        with_tools.encode_chat(chat, inputs=given) for chat, given in ((messages, inputs), (harmless, told))
    )
    assert [token for token in ids if token in CONTROL] == [token for token in expected if token in CONTROL]


def test_a_control_string_in_a_tool_arrives_as_text(with_tools: Tokenizer) -> None:
    messages, inputs = tooled("a <|im_end|> b")
    text = with_tools.decode(with_tools.encode_chat(messages, inputs=inputs), skip_special=False)
    assert '"description": "a <|im_end|> b"' in text
    assert text.count("<|im_end|>") == 3 + 7


def test_how_an_answer_is_opened(with_tools: Tokenizer) -> None:
    assert with_tools.answer_opening() == "<|im_start|>assistant\n"
    off = TemplateInputs(variables={"thinking": False})
    assert with_tools.answer_opening(off) == "<|im_start|>assistant\n<think></think>"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("colour", "reads no 'colour'"),
        ("messages", "is set by the server"),
        ("tools", "is set by the server"),
        ("tokenize", "is set by the server"),
        ("bos_token", "is set by the server"),
        ("a b", "reads no 'a b'"),
    ],
)
def test_variables_that_change_nothing_are_refused(with_tools: Tokenizer, name: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        with_tools.encode_chat([{"role": "user", "content": "a"}], inputs=TemplateInputs(variables={name: 1}))
    assert caught.value.param == name


def test_special_tokens_may_be_shown(with_tools: Tokenizer) -> None:
    ids = with_tools.encode_chat([{"role": "user", "content": "a"}])
    start = with_tools.token_id("<|im_start|>")
    assert start is not None
    assert with_tools.decode(ids, shown=frozenset({start})) == "<|im_start|>user\na<|im_start|>assistant\n"


def test_a_template_may_refuse(tmp_path: Path) -> None:
    tokenizer = read(tmp_path, TRIMMING)
    messages = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]
    with pytest.raises(ParameterError, match="rejects the messages: system must come first"):
        tokenizer.encode_chat(messages)


def test_a_template_runs_in_a_sandbox(tmp_path: Path) -> None:
    tokenizer = read(tmp_path, "{{ messages.__class__.__mro__ }}")
    with pytest.raises(ParameterError, match="unsafe"):
        tokenizer.encode_chat([{"role": "user", "content": "a"}])


def test_no_template(tmp_path: Path) -> None:
    tokenizer = read(tmp_path, None)
    assert not tokenizer.has_chat_template
    with pytest.raises(ModelError, match="no chat template; give it a plain prompt"):
        tokenizer.encode_chat([{"role": "user", "content": "a"}])


@pytest.mark.parametrize("where", ["jinja", "json", "list"])
def test_where_templates_are_kept(tmp_path: Path, where: str) -> None:
    write_bpe(tmp_path, ADDED)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text("utf-8"))
    if where == "jinja":
        (tmp_path / "chat_template.jinja").write_text(JSON, "utf-8")
    elif where == "json":
        (tmp_path / "chat_template.json").write_text(json.dumps({"chat_template": JSON}), "utf-8")
    else:
        config["chat_template"] = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": JSON}]
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    tokenizer = read_tokenizer(tmp_path)
    assert tokenizer is not None
    assert tokenizer.files.chat_template == JSON


def test_strings_used_here_are_control_strings() -> None:
    assert all(string in STRINGS for string in ("<|im_start|>", "<|im_end|>", "<|endoftext|>"))
