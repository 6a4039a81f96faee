"""The file of `anyorder selftext`: whole lines only, and a seed that has not written into it before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.cli.files import reason
from anyorder.cli.jsonl import records
from anyorder.errors import DataError

if TYPE_CHECKING:
    from anyorder.conversion.selftext import Conversation
    from anyorder.models.tokenizer import Tokenizer

RECORD_START = b'{"prompt_ids": '


class Store:
    """The output file: what is in it already, and a way to append to it.

    Args:
        path: made if it is not there; a half-written last line is cut off.
        model: name of the writer; a file of another one is refused, since its ids mean something else.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.model = model
        self.tokens = 0
        self.conversations = 0
        self.repaired = False
        self._seeds: set[int] = set()
        self._prompts: set[tuple[int, ...]] = set()
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise DataError(f"cannot write {path}: {reason(error)}; name another file") from error
        try:
            self._read()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        for where, _, record in records(self.path, whole.decode("utf-8", "replace")):
            if not record.keys() >= {"prompt_ids", "answer_ids", "seed", "model"}:
                raise DataError(f"{where}: was not written by `anyorder selftext`; name another file")
            if record["model"] != self.model:
                raise DataError(f"{where}: was written by {record['model']!r}, now {self.model!r}; name another file")
            self._seeds.add(record["seed"])
            self._count(record)
        self._cut_off(data[len(whole) :], len(whole))

    def _cut_off(self, tail: bytes, start: int) -> None:
        """Drop a line that a stop left half-written; anything else is not ours to drop."""
        if tail and not tail.startswith(RECORD_START[: len(tail)]):
            raise DataError(f"{self.path} ends in a line that is none of `anyorder selftext`; name another file")
        self._file.truncate(start)
        self.repaired = bool(tail)

    def free_seed(self, first: int) -> int:
        """`first`, or the one behind the last that has written into this file: a used one would repeat itself."""
        return max([first - 1, *self._seeds]) + 1

    def add(self, conversation: Conversation, tokenizer: Tokenizer, seed: int) -> None:
        """Append one whole line and hand it to the system; a question that is there already is left out."""
        prompt, answer = conversation.prompt_ids, conversation.answer_ids
        if prompt in self._prompts:
            return
        record = {
            "prompt_ids": prompt, "answer_ids": answer, "seed": seed, "model": self.model,
            "prompt": tokenizer.decode(prompt), "answer": tokenizer.decode(answer),
        }  # fmt: skip
        self._file.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        self._file.flush()
        self._count(record)

    def _count(self, record: dict[str, Any]) -> None:
        self._prompts.add(tuple(record["prompt_ids"]))
        self.tokens += len(record["answer_ids"])
        self.conversations += 1

    def summary(self) -> str:
        """`own.jsonl holds 1,042 conversations, 157,122 tokens of answers`."""
        return f"{self.path} holds {self.conversations:,} conversations, {self.tokens:,} tokens of answers"

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
