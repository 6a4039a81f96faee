"""Sources become documents whose trainable tokens are the right ones, and damaged ones are told by file and line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.training.corpus import END, SHORTENING, SIZE, TEXT_END, chat, vocabulary, write_lines

from anyorder.errors import DataError, ModelError
from anyorder.training.data import encode
from anyorder.training.data.documents import Documents, read_source
from anyorder.training.data.encode import Vocabulary
from anyorder.training.data.report import SourceReport
from anyorder.training.data.spec import Data

SPEC: TypeAdapter[Any] = TypeAdapter(Data)


def read(folder: Path, *, words: Vocabulary | None = None, **spec: Any) -> tuple[Documents, SourceReport]:
    documents = Documents()
    report = read_source(SPEC.validate_python(spec), words or vocabulary(folder / "words"), documents)
    return documents, report


def shown(documents: Documents, words: Vocabulary) -> list[tuple[str, str]]:
    """(all of the text, its trainable part) of every document."""
    tokenizer = words.require()
    found: list[tuple[str, str]] = []
    for start, stop in zip(documents.ends, documents.ends[1:], strict=False):
        ids, marks = documents.ids[start:stop].tolist(), documents.trainable[start:stop]
        learned = [token for token, mark in zip(ids, marks, strict=True) if mark]
        found.append((tokenizer.decode(ids, skip_special=False), tokenizer.decode(learned, skip_special=False)))
    return found


def test_only_answers_are_trainable_and_they_end_with_the_end_of_their_turn(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [chat("hello", "hey", "well", "bye"), chat("q", "assistant", "more")])
    words = vocabulary(tmp_path / "words")
    documents, report = read(tmp_path, words=words, kind="chat", path=path)
    opening = "<|im_start|>assistant\n"
    assert shown(documents, words) == [
        (
            f"<|im_start|>user\nhello<|im_end|>\n{opening}hey<|im_end|>\n<|im_start|>user\nwell<|im_end|>\n"
            f"{opening}bye<|im_end|>",
            "hey<|im_end|>bye<|im_end|>",
        ),
        (f"<|im_start|>user\nq<|im_end|>\n{opening}assistant<|im_end|>", "assistant<|im_end|>"),
    ]
    assert (report.records, report.documents, report.tokens) == (2, 2, len(documents.ids))
    assert report.trainable == sum(documents.trainable)


def test_the_ids_before_an_answer_are_those_that_a_decoder_is_given(tmp_path: Path) -> None:
    messages = chat("hello", "hell", "he", "ll")
    documents, _ = read(tmp_path, kind="chat", path=write_lines(tmp_path / "a.jsonl", [messages]))
    tokenizer = vocabulary(tmp_path / "words").require()
    for number in (1, 3):
        prompt = tokenizer.encode_chat(messages["messages"][:number])
        assert documents.ids[: len(prompt)].tolist() == prompt
        assert documents.trainable[len(prompt) - 1 : len(prompt) + 1] == bytes((0, 1))


def test_an_answer_that_melts_into_its_opening_is_counted_and_not_learned(tmp_path: Path) -> None:
    """The template's `h` and the answer's `e` are one token: a decoder would never see them so."""
    template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}<|im_start|>{{ m['content'] }}<|im_end|>"
        "{% else %}h{{ m['content'] }}<|im_end|>{% endif %}{% endfor %}{% if add_generation_prompt %}h{% endif %}"
    )
    path = write_lines(tmp_path / "a.jsonl", [chat("a", "elegy", "b", "i"), chat("a", "e")])
    words = vocabulary(tmp_path / "words", template)
    documents, report = read(tmp_path, words=words, kind="chat", path=path)
    assert [learned for _, learned in shown(documents, words)] == ["i<|im_end|>"]
    assert report.dropped == {
        "answer whose beginning cannot be told from its opening": 2,
        "no answer to learn from": 1,
    }


def test_a_template_that_shortens_earlier_answers_gets_a_document_for_each(tmp_path: Path) -> None:
    words = vocabulary(tmp_path / "words", SHORTENING)
    path = write_lines(tmp_path / "a.jsonl", [chat("a", "one", "b", "two")])
    documents, _ = read(tmp_path, words=words, kind="chat", path=path)
    assert [learned for _, learned in shown(documents, words)] == ["<think>one<|im_end|>", "<think>two<|im_end|>"]
    assert shown(documents, words)[1][0].count("<think>") == 1


def test_control_tokens_spelled_in_a_text_stay_text(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [chat("<|im_end|>", "<|im_start|>")])
    documents, _ = read(tmp_path, kind="chat", path=path)
    assert documents.ids.tolist().count(END) == 2


def test_plain_texts_end_with_the_end_token(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"text": "hello"}, {"text": "he", "id": 3}])
    documents, report = read(tmp_path, kind="jsonl", path=path)
    assert documents.ids.tolist().count(TEXT_END) == 2
    assert all(documents.trainable)
    assert report.ignored == {"id": 1}
    body = read(tmp_path, kind="jsonl", path=write_lines(tmp_path / "b.jsonl", [{"b": "hello"}]), field="b")[0]
    assert body.ids == documents.ids[: documents.ends[1]]


def test_ids_of_self_distillation_are_taken_as_they_are(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"prompt_ids": [5, 6], "answer_ids": [7, 8, 9], "answer": "x"}])
    documents, report = read(tmp_path, words=Vocabulary(None, 10), kind="ids", path=path)
    assert documents.ids.tolist() == [5, 6, 7, 8, 9]
    assert documents.trainable == bytes((0, 0, 1, 1, 1))
    assert report.ignored == {"answer": 1}


def test_text_files_are_one_document_or_cut_at_a_separator(tmp_path: Path) -> None:
    (tmp_path / "a.text").write_text("one\n%%\ntwo\n%%\n  \n", "utf-8")
    words = vocabulary(tmp_path / "words")
    whole, _ = read(tmp_path, words=words, kind="text", path=tmp_path / "a.text")
    parts, report = read(tmp_path, words=words, kind="text", path=tmp_path / "a.text", separator="%%\n")
    assert len(whole) == 1
    assert [text for text, _ in shown(parts, words)] == ["one\n<|endoftext|>", "two\n<|endoftext|>"]
    assert report.dropped == {"blank": 1}


def test_a_folder_of_code_is_read_in_order_without_what_is_no_code(tmp_path: Path) -> None:
    root = tmp_path / "code"
    for name, data in {
        "b.py": b"b = 1\n", "a/z.py": b"z = 2\n", ".git/x.py": b"hidden", "binary.py": b"\0\1", "latin.py": b"\xe9\xe8",
        "huge.py": b"x" * 200, "blank.py": b" \n", "note.xyz": b"other", ".hidden.py": b"x = 1\n",
    }.items():  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "link.py").symlink_to(root / "b.py")
    words = vocabulary(tmp_path / "words")
    documents, report = read(tmp_path, words=words, kind="code", path=root, max_bytes=100)
    assert [text for text, _ in shown(documents, words)] == ["b = 1\n<|endoftext|>", "z = 2\n<|endoftext|>"]
    assert report.dropped == {"not UTF-8 text": 2, "larger than 100 bytes": 1, "blank": 1}
    assert report.read_bytes == report.total_bytes


def test_files_are_hashed_on_the_way(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"text": "hello"}, "", {"text": "he"}])
    _, report = read(tmp_path, kind="jsonl", path=path)
    (file,) = report.files
    assert file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert file.num_bytes == path.stat().st_size == report.read_bytes
    assert report.records == 2


def test_a_long_text_is_tokenized_in_chunks_and_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("hello\n\n  well\nhe\n" * 9 + "end", "utf-8")
    words = vocabulary(tmp_path / "words")
    whole, _ = read(tmp_path, words=words, kind="text", path=tmp_path / "a.txt")
    monkeypatch.setattr(encode, "CHUNK", 20)
    parts, _ = read(tmp_path, words=words, kind="text", path=tmp_path / "a.txt")
    assert parts.ids == whole.ids


@pytest.mark.parametrize(
    ("kind", "record", "message"),
    [
        ("chat", '{"messages": [', "a.jsonl, line 2: no valid JSON"),
        ("chat", "[1]", "a.jsonl, line 2: needs a JSON object, got list"),
        ("chat", {"mesages": []}, "a.jsonl, line 2: needs 'messages'; it has 'mesages'"),
        ("chat", {"messages": []}, 'a.jsonl, line 2: "messages" must hold at least one message'),
        ("chat", {"messages": "hello"}, 'a.jsonl, line 2: "messages" must be a list of'),
        ("chat", {"messages": [{"role": "assistant", "content": "a"}]}, 'line 2: "messages" begins with an answer'),
        (
            "chat",
            {"messages": [{"role": "user", "content": "a"}, {"role": "critic", "content": "b"}]},
            "line 2: messages[1]: role must be one of system, user, assistant, tool, got 'critic'",
        ),
        ("chat", chat("a", "b") | {"messages": [{"role": "user", "content": 3}]}, "line 2: messages[0]: content must"),
        (
            "chat",
            {"messages": [{"role": "user", "content": "a", "name": "x"}]},
            "line 2: messages[0]: unknown field 'name'; known: role, content",
        ),
        ("jsonl", {"txt": "a"}, "a.jsonl, line 2: needs 'text'; it has 'txt'"),
        ("jsonl", {"text": ["a"]}, "a.jsonl, line 2: 'text' must be a text, got a list"),
        ("ids", {"answer_ids": [1]}, "line 2: needs 'prompt_ids' and 'answer_ids'; it has 'answer_ids'"),
        ("ids", {"prompt_ids": [1], "answer_ids": ["a"]}, "line 2: 'answer_ids' must hold token ids only, got 'a'"),
        ("ids", {"prompt_ids": 1, "answer_ids": [1]}, "line 2: 'prompt_ids' must be a list of token ids, got 1"),
        (
            "ids",
            {"prompt_ids": [1], "answer_ids": [SIZE]},
            f"line 2: token id {SIZE} is outside the vocabulary of {SIZE}; were these ids, or this tokenizer, made",
        ),
    ],
)
def test_a_damaged_record_is_named_by_file_and_line(tmp_path: Path, kind: str, record: Any, message: str) -> None:
    good = {"chat": chat("a", "b"), "jsonl": {"text": "a"}, "ids": {"prompt_ids": [1], "answer_ids": [2]}}[kind]
    path = write_lines(tmp_path / "a.jsonl", [good, record])
    with pytest.raises(DataError) as caught:
        read(tmp_path, kind=kind, path=path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nothing_to_learn_from_is_an_error_that_says_why(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [chat("a"), chat("b")])
    with pytest.raises(DataError, match="no token to learn from in 2 records; 2 left out: "):
        read(tmp_path, kind="chat", path=path)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match="is empty"):
        read(tmp_path, kind="jsonl", path=tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="is empty"):
        read(tmp_path, kind="text", path=tmp_path / "a.txt")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"no data at .*nowhere"):
        read(tmp_path, kind="chat", path=tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"none holds no file ending in \.py"):
        read(tmp_path, kind="code", path=tmp_path / "none", extensions=[".py"])


def test_a_text_file_that_is_not_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntw\xff\n")
    with pytest.raises(DataError, match=r"a\.txt, line 2: byte 0xff is not UTF-8"):
        read(tmp_path, kind="text", path=tmp_path / "a.txt")


def test_text_needs_a_tokenizer_and_chats_a_template(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [chat("a", "b") | {"text": "a"}])
    with pytest.raises(ModelError, match="no tokenizer, so that it cannot read text"):
        read(tmp_path, words=Vocabulary(None, 10), kind="jsonl", path=path)
    with pytest.raises(ModelError, match="no chat template"):
        read(tmp_path, words=vocabulary(tmp_path / "plain", template=None), kind="chat", path=path)
