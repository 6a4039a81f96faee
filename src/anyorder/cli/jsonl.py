"""Many prompts from a JSONL file to a JSONL file, in a way that can be stopped and gone on with at any moment.

A record of the output is written whole, as soon as its answer is finished, and says by its key which line it answers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyorder.cli.files import read_text, reason
from anyorder.errors import DataError

Key = str | int
RECORD_START = b'{"id": '


@dataclass(frozen=True, slots=True)
class Job:
    """One line of the input.

    Attributes:
        key: its "id", or its line number where it has none.
        prompt: text, or messages with role and content.
    """

    key: Key
    prompt: str | list[dict[str, Any]]


def read_jobs(path: Path, *, images: bool = False) -> list[Job]:
    """All lines of the input, checked.

    Args:
        images: contents of messages may be lists of text and image parts; images are files, seen from the input's
            folder.
    Raises:
        DataError: a line is no JSON object with a prompt or messages, or repeats an id; file and line are named.
    """
    jobs: dict[Key, Job] = {}
    for where, number, record in records(path, read_text(path)):
        job = Job(_key(where, record, number), _prompt(where, record, path.parent if images else None))
        if job.key in jobs:
            raise DataError(f"{where}: id {job.key!r} stands on an earlier line, too; ids must differ")
        jobs[job.key] = job
    if not jobs:
        raise DataError(f'{path} holds no line; write one JSON object per line: {{"prompt": "..."}}')
    return list(jobs.values())


def records(path: Path, text: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(place for messages, line number from 1, object) of every line that is not blank."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: no valid JSON ({error}); mend or remove the line") from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: needs a JSON object, got {type(record).__name__}")
        yield where, number, record


def _key(where: str, record: dict[str, Any], number: int) -> Key:
    key = record.get("id", number)
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise DataError(f'{where}: "id" must be a string or a whole number, got {key!r}')
    return key


def _prompt(where: str, record: dict[str, Any], folder: Path | None) -> str | list[dict[str, Any]]:
    match record:
        case {"prompt": _, "messages": _}:
            raise DataError(f'{where}: has both "prompt" and "messages"; drop one')
        case {"prompt": str(text)} if text.strip():
            return text
        case {"messages": [_, *_]} if all(_is_message(message) for message in record["messages"]):
            return record["messages"]
        case {"messages": [_, *_]} if folder is not None and all(map(_is_message_of_parts, record["messages"])):
            return [{**message, "content": _found(where, message["content"], folder)} for message in record["messages"]]
        case {"prompt": _}:
            raise DataError(f'{where}: "prompt" must be a text that is not empty')
        case {"messages": _}:
            kinds = "both texts" if folder is None else "both texts, or the content a list of text and image parts"
            raise DataError(f'{where}: "messages" must be a list of {{"role": ..., "content": ...}}, {kinds}')
        case _:
            raise DataError(f'{where}: needs "prompt" or "messages"; it has {", ".join(record) or "nothing"}')


def _is_message(message: Any) -> bool:
    match message:
        case {"role": str(), "content": str()}:
            return len(message) == 2
        case _:
            return False


def _is_message_of_parts(message: Any) -> bool:
    match message:
        case {"role": str(), "content": [_, *_] as parts}:
            return len(message) == 2 and all(map(_is_part, parts))
        case _:
            return _is_message(message)


def _is_part(part: Any) -> bool:
    match part:
        case {"type": "text", "text": str()} | {"type": "image", "image": str()}:
            return len(part) == 2
        case _:
            return False


def _found(where: str, content: Any, folder: Path) -> Any:
    """A content with the files of its images."""
    if isinstance(content, str):
        return content
    return [{**part, "image": _file(where, folder / part["image"])} if "image" in part else part for part in content]


def _file(where: str, path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"{where}: there is no image at {str(path)!r}; name one, seen from the folder of the input")
    return path


class Output:
    """The output file: what is in it already, and a way to append to it.

    Args:
        path: made if it is not there; a half-written last line is cut off.
        settings: what the answers depend on; an output begun with other settings is refused.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path = path
        self.settings = json.loads(json.dumps(settings))  # as it will be read back: lists for tuples, text for keys
        self.repaired = False
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise DataError(f"cannot write {path}: {reason(error)}; name another --output") from error
        try:
            self.done = self._read_done()
        except BaseException:
            self._file.close()
            raise

    def _read_done(self) -> set[Key]:
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        done: set[Key] = set()
        for where, _, record in records(self.path, whole.decode("utf-8", "replace")):
            if "id" not in record or "text" not in record:
                raise DataError(f"{where}: is no answer of anyorder; name another --output")
            if (begun := record.get("settings")) != self.settings:
                raise DataError(f"{where}: was made with {begun}, now {self.settings}; use those or another --output")
            done.add(record["id"])
        self._cut_off(data[len(whole) :], len(whole))
        return done

    def _cut_off(self, tail: bytes, start: int) -> None:
        """Drop a line that a stop left half-written; anything else is not ours to drop."""
        if not tail:
            return
        if not tail.startswith(RECORD_START[: len(tail)]):
            raise DataError(f"{self.path} ends in a line that is no answer of anyorder; name another --output")
        self._file.truncate(start)
        self.repaired = True

    def remaining(self, jobs: list[Job]) -> list[Job]:
        """The jobs that have no answer yet.

        Raises:
            DataError: an answer belongs to none of the jobs.
        """
        strange = self.done - {job.key for job in jobs}
        if strange:
            raise DataError(
                f"{self.path} answers id {min(strange, key=str)!r}, which the input lacks; name another --output"
            )
        return [job for job in jobs if job.key not in self.done]

    def write(self, key: Key, answer: dict[str, Any]) -> None:
        """Append one whole line and hand it to the system."""
        line = json.dumps({"id": key, **answer, "settings": self.settings}, ensure_ascii=False)
        self._file.write(line.encode("utf-8", "replace") + b"\n")
        self._file.flush()
        self.done.add(key)

    def close(self) -> None:
        """Make sure that it is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Output:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
