"""What a recipe may say about a source of data: one model per kind, checked by pydantic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

CODE = (
    ".c", ".cc", ".cpp", ".cs", ".css", ".go", ".h", ".hpp", ".html", ".java", ".jl", ".js", ".json", ".kt", ".lua",
    ".md", ".php", ".pl", ".py", ".r", ".rb", ".rs", ".scala", ".sh", ".sql", ".swift", ".toml", ".ts", ".tsx", ".yaml",
    ".yml", ".zig",
)  # fmt: skip
"""Names of source files end so, unless the recipe says otherwise."""

Suffix = Annotated[str, Field(pattern=r"^\.\S+$")]


class Strict(BaseModel):
    """Unknown fields are refused, and nothing changes once it is checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Source(Strict):
    """What all kinds have in common."""

    weight: float = Field(default=1.0, gt=0)
    """How often the rows of this source come in an epoch: 2 is twice, 0.5 half of them, drawn anew in each epoch."""

    @property
    def endless(self) -> bool:
        """Its rows come for as long as training goes, and there are no epochs."""
        return False


class ChatData(Source):
    """JSONL of conversations: `{"messages": [{"role": ..., "content": ...}, ...]}`."""

    kind: Literal["chat"]
    path: Path
    """A file, or a folder of *.jsonl files."""


class JsonlData(Source):
    """JSONL of plain texts."""

    kind: Literal["jsonl"]
    path: Path
    """A file, or a folder of *.jsonl files."""
    field: str = Field(default="text", min_length=1)
    """The key of the text."""


class IdsData(Source):
    """JSONL of token ids, as self-distillation writes them: `{"prompt_ids": [...], "answer_ids": [...]}`."""

    kind: Literal["ids"]
    path: Path
    """A file, or a folder of *.jsonl files."""


class TextData(Source):
    """Plain text files in UTF-8."""

    kind: Literal["text"]
    path: Path
    """A file of any name, or a folder."""
    extensions: tuple[Suffix, ...] = (".txt", ".md")
    """Of the files taken from a folder."""
    separator: str | None = Field(default=None, min_length=1)
    """What stands between the documents of a file; left out: a file is one document."""


class CodeData(Source):
    """A folder of source code; binary, huge and hidden files, symbolic links and .git are left out."""

    kind: Literal["code"]
    path: Path
    """A folder."""
    extensions: tuple[Suffix, ...] = CODE
    """Of the files that are taken."""
    max_bytes: int = Field(default=1_000_000, gt=0)
    """Files above are left out: they are data or generated."""


class StreamData(Source):
    """A data set of Hugging Face `datasets`, streamed; it needs the extra `data`."""

    kind: Literal["stream"]
    path: str = Field(min_length=1)
    """What `datasets.load_dataset` takes: a hub id, a folder, or a format like "json" with `files`."""
    name: str | None = None
    """The configuration of the data set."""
    split: str = "train"
    """Of the data set."""
    files: tuple[str, ...] = ()
    """Passed on as `data_files`."""
    field: str = Field(default="text", min_length=1)
    """The column to read: a text, or the messages of a chat."""
    limit: int | None = Field(default=None, gt=0)
    """Read so many records once, before training; left out: read on for as long as training goes."""

    @property
    def endless(self) -> bool:
        return self.limit is None


TaskName = Literal["addition", "cities", "records", "sudoku"]


class TasksData(Source):
    """Checkable documents, made while training goes on: sums, records, grids; see docs/any-order-model.md."""

    kind: Literal["tasks"]
    shares: dict[TaskName, Annotated[float, Field(gt=0)]] = Field(min_length=1)
    """Share of the rows for each task, in any unit; a task that is left out gets none."""
    alone: float = Field(default=0.0, ge=0, le=1)
    """Share of the rows that hold one document, half of them with end of text behind it; the others hold as many as
    fit."""

    asked: float = Field(default=0.0, ge=0, le=1)
    """Share of the documents that are given but for one part, such as a number; of the others all may be masked."""

    @property
    def endless(self) -> bool:
        return True

    @property
    def path(self) -> str:
        """What stands for a path where sources are listed."""
        return ", ".join(f"{share:g} {name}" for name, share in self.shares.items())


ReadData = ChatData | JsonlData | IdsData | TextData | CodeData | StreamData
"""What is read from somewhere."""
Data = Annotated[ReadData | TasksData, Field(discriminator="kind")]
