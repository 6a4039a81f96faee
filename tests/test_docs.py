"""The documentation runs: every page is tried out, and what it shows is compared with what really comes out.

The conventions, for README.md and docs/*.md:

- The `python` blocks of a page run from top to bottom in one namespace, in a fresh folder that holds the checkout's
  `tests` and `docs`, so that examples can use `tests/reference`.
- A `text` block right behind a `python` block is what that block prints; any other `text` block is a picture.
- In a `console` block, `$ anyorder ...` runs the command line in this process, any other `$ ...` runs in bash, and the
  lines below are what a terminal would show of it. A pipe may end in `| anyorder ...`.
- In expected output `...` stands for anything, and a number before ` s` or ` tok/s` for any number; blanks at the ends
  of lines do not count.
- What cannot run here (a download, a terminal) is an `sh`, `json` or `toml` block, or has `<!-- not run: reason -->`
  above.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import anyorder
from anyorder.cli.app import run

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "console", "text", "sh", "json", "toml"}
NOT_RUN = re.compile(r"<!-- not run: \S.* -->\n$")
FENCE = re.compile(r"^```(?P<language>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?://)(?P<file>[^)#]*)(?:#(?P<heading>[^)]*))?\)")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    body: str
    line: int  # of the body's first line, from 1
    runs: bool
    output: str | None = None  # the `text` block behind it


def blocks_of(text: str) -> list[Block]:
    """All fenced blocks, those of output joined to what they are the output of."""
    found: list[Block] = []
    end = 0
    for match in FENCE.finditer(text):
        between, end = text[end : match.start()], match.end()
        language, body = match["language"], match["body"]
        if language == "text" and not between.strip() and found and found[-1].language == "python":
            found[-1] = Block("python", found[-1].body, found[-1].line, found[-1].runs, output=body)
            continue
        runs = language in ("python", "console") and not NOT_RUN.search(between)
        found.append(Block(language, body, text.count("\n", 0, match.start("body")) + 1, runs))
    return found


def normalised(output: str) -> str:
    """Without what differs from run to run and does not matter."""
    lines = [line.rstrip() for line in re.sub(r"\d+(\.\d+)?(?= (s|tok/s)\b)", "#", output).splitlines()]
    return "\n".join(lines).strip("\n")


def agrees(expected: str, got: str) -> bool:
    """True if the output is the expected one, `...` in it standing for anything."""
    pattern = ".*?".join(map(re.escape, normalised(expected).split("...")))
    return re.fullmatch(pattern, normalised(got), re.DOTALL) is not None


def run_python(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    """What the block prints; a traceback points at the page's own line."""
    code = compile("\n" * (block.line - 1) + block.body, str(page), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, namespace)
    return out.getvalue()


def commands_of(block: Block) -> list[tuple[str, str]]:
    """(command, expected output) of a `console` block."""
    head, *parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    assert not head.strip(), f"line {block.line}: a console block starts with `$ `"
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.fixture(scope="session")
def loaded() -> dict[str, Any]:
    """Models that a page has loaded, for the pages after it."""
    return {}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: dict[str, Any]) -> None:
    """Where a page is tried out: a folder of its own, an 80 column terminal without colour, each model loaded once."""
    for name in ("tests", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    load = anyorder.load

    def load_once(source: Any = None, **kwargs: Any) -> Any:
        key = repr((str(source or "smollm2"), sorted(kwargs.items())))
        if key not in loaded:
            loaded[key] = load(source, **kwargs)
        return loaded[key]

    monkeypatch.setattr(anyorder, "load", load_once)


Shell = Callable[[str], str]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs a line of a console block and gives all that it writes, in order."""

    def call(command: str) -> str:
        before, _, after = command.rpartition("| anyorder ")
        if not before and not command.startswith("anyorder "):
            done = subprocess.run(["bash", "-c", f"{command} 2>&1"], capture_output=True, text=True, check=True)
            return done.stdout
        stdin = subprocess.run(["bash", "-c", before], capture_output=True, check=True).stdout if before else b""
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            run(shlex.split(after if before else command.removeprefix("anyorder ")))
        return out.getvalue()

    return call


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
@pytest.mark.usefixtures("desk")
def test_a_page_does_what_it_shows(page: Path, shell: Shell) -> None:
    namespace: dict[str, Any] = {"__name__": page.stem}
    wrong: list[str] = []
    for block in blocks_of(page.read_text("utf-8")):
        if not block.runs:
            continue
        for what, expected, got in tried(block, page, namespace, shell):
            if not agrees(expected, got):
                wrong.append(f"{page.name}, line {block.line}: {what}\nshown:\n{expected}\nreally:\n{got}")
    assert not wrong, "\n".join(wrong)


def tried(block: Block, page: Path, namespace: dict[str, Any], shell: Shell) -> Iterator[tuple[str, str, str]]:
    """(what was run, the output shown, the output got) of everything in the block that has an output to compare."""
    if block.language == "console":
        yield from ((command, output, shell(command)) for command, output in commands_of(block))
        return
    got = run_python(block, page, namespace)
    if block.output is not None:
        yield "the output of this block", block.output, got


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_fence_of_a_page_is_of_a_known_kind(page: Path) -> None:
    """A `py` or `shell` block would be skipped without a word."""
    languages = {block.language for block in blocks_of(page.read_text("utf-8"))}
    if page.name not in (
        "README.md",
        "performance.md",
    ):  # which show set-up and tables of figures in blocks of their own
        assert languages <= LANGUAGES
    assert page.read_text("utf-8").count("\n```") % 2 == 0


def slug(heading: str) -> str:
    """The anchor that a heading gets on the web."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", page.read_text("utf-8"))):
        target = (page.parent / link["file"]).resolve() if link["file"] else page
        assert target.exists(), f"{page.name} links to {link['file']}, which is not there"
        if link["heading"] and target.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            assert link["heading"] in map(slug, headings), f"{page.name} links to {link['file']}#{link['heading']}"


def test_the_index_lists_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    missing = [page.name for page in PAGES[1:] if page.name != "README.md" and f"]({page.name})" not in index]
    assert not missing


def test_files_named_on_a_page_exist() -> None:
    """A code span that looks like a source file is one, seen from src/anyorder or from the root of the checkout."""
    for page in PAGES:
        for name in re.findall(r"`([\w./]+/[\w.]+\.(?:py|md))(?:::[\w.]+)?`", page.read_text("utf-8")):
            places = (ROOT / "src" / "anyorder" / name, ROOT / name)
            assert any(place.exists() for place in places), f"{page.name} names {name}"


PAGE = """
```python
print("a", 1 / 3)
```
```text
a ...
```

<!-- not run: too slow -->
```python
1 / 0
```

```console
$ anyorder --version
anyorder 0
$ echo 3.25 s
0.50 s
```
"""


def test_blocks_are_found_and_joined_to_their_output() -> None:
    first, second, third = blocks_of(PAGE)
    assert (first.language, first.line, first.output, first.runs) == ("python", 3, "a ...\n", True)
    assert not second.runs
    assert commands_of(third) == [("anyorder --version", "anyorder 0\n"), ("echo 3.25 s", "0.50 s\n")]


@pytest.mark.usefixtures("desk")
def test_what_differs_is_noticed(shell: Shell) -> None:
    """The checks above must be able to fail."""
    first, _, third = blocks_of(PAGE)
    assert [agrees(shown, got) for _, shown, got in tried(first, ROOT, {}, shell)] == [True]
    assert [agrees(shown, got) for _, shown, got in tried(third, ROOT, {}, shell)] == [False, True]
    assert not agrees("a ... c", "a b d")
    with pytest.raises(ZeroDivisionError):
        run_python(Block("python", "1 / 0", 1, True), ROOT / os.devnull, {})
