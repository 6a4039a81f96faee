"""Who may import whom. Guards the one-way flow of docs/architecture.md: function-level imports count, too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "anyorder"

# The first part of a module's name behind `anyorder.` -> the parts it may import. Only `if TYPE_CHECKING:` is free.
ALLOWED = {
    "errors": "",
    "reporting": "errors",  # records, figures, pages; knows nothing of what is measured
    "events": "",
    "pictures": "",  # plain data: what a vision tower reads
    "images": "errors",
    "window": "pictures",
    "draws": "",
    "rates": "",
    "policies": "draws",  # tensors and numbers in, tensors out
    "canvas": "errors events pictures",
    "params": "errors policies",
    "cache": "errors window",
    "decoders": "canvas window events policies cache draws errors params",
    "ngrams": "errors",  # no torch, no model: text in, guesses out
    "models": "ngrams pictures errors",
    "tasks": "",  # texts and rules; no torch, no model
    "training": "models tasks policies draws rates errors",
    "recipes": "",  # TOML files
    "runner": "models cache window pictures errors",  # knows no decoder, no policy, no request
    "prompt": "canvas images pictures errors",
    "resolve": "cache params policies errors",
    "request": "resolve decoders ngrams canvas window params policies draws errors",
    "generation": "events",
    "channels": "errors",  # text in, reasoning, words and calls out; no torch, no model
    "thinking": "channels generation prompt models errors",
    "engine": "runner decoders canvas window pictures events cache draws errors",
    "scoring": "request resolve decoders draws canvas window pictures params events errors",
    "api": "thinking scoring prompt resolve request generation engine models cache runner canvas params events errors",
    "serving": "seams scoring prompt resolve request engine runner cache decoders canvas window models params events "
    "errors",
    "evaluation": "api scoring models params errors",
    "precision": "models rates runner window",
    "plan": "models rates runner cache window errors",
    "exam": "reporting api tasks models canvas",
    "seams": "resolve request runner engine decoders generation policies draws canvas window models params events "
    "errors",
    "chat": "thinking api prompt cache canvas params events errors",
    "conversion": "reporting api prompt resolve models training params errors",
    "sweep": "reporting bench seams exam api tasks models canvas prompt params policies errors",
    "reference": "prompt models runner decoders engine canvas policies draws cache window events errors",
    "server": "images thinking serving seams scoring prompt channels params policies canvas models generation "
    "events errors",  # HTTP at its edge
    "bench": "errors",  # a client of any server: knows nothing of ours
    "cli": "*",
    "__init__": "*",
    "__main__": "cli",
}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below `node` that runs: all but the bodies of `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_type_checking(child):
            for other in child.orelse:
                yield from statements(ast.Module([other], []))
        else:
            yield child
            yield from statements(child)


def targets(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    """Dotted names of the modules (or of the names in them) that this statement imports; `package` holds the file."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0):
            return [f"{node.module}.{alias.name}" for alias in node.names]
        case ast.ImportFrom():
            base = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
            return [".".join([*base, alias.name]) for alias in node.names]
        case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")):
            return [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        case _:
            return []


def imports(source: str, package: tuple[str, ...]) -> set[str]:
    """First parts behind `anyorder.` of everything that `source` imports; "" for `import anyorder` itself."""
    names = [target.split(".") for node in statements(ast.parse(source)) for target in targets(node, package)]
    return {name[1] if len(name) > 1 else "" for name in names if name[0] == "anyorder"}


def part_of(file: Path) -> str:
    """The key of ALLOWED that `file` belongs to."""
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(SOURCE)) for file in FILES])
def test_imports_point_one_way(file: Path) -> None:
    part = part_of(file)
    assert part in ALLOWED, f"{part} has no entry in ALLOWED: say what it may import"
    if ALLOWED[part] == "*":
        return
    found = imports(file.read_text("utf-8"), ("anyorder", *file.relative_to(SOURCE).parts[:-1]))
    wrong = found - set(ALLOWED[part].split()) - {part}
    assert not wrong, f"{part} imports {sorted(wrong)}; it may import: {ALLOWED[part] or 'nothing'}"


def test_the_rules_have_no_cycle() -> None:
    done: set[str] = set()
    rules = {part: set(allowed.split()) for part, allowed in ALLOWED.items() if allowed != "*"}
    while ready := [part for part in rules if part not in done and rules[part] <= done | {"cli"}]:
        done.update(ready)
    assert done == set(rules)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import anyorder.engine.loop", {"engine"}),
        ("from anyorder.engine import loop", {"engine"}),
        ("from anyorder import api", {"api"}),
        ("from .. import api", {"api"}),
        ("from ..models.load import load", {"models"}),
        ("from .score import top", {"policies"}),
        ("def f():\n    from anyorder.cli import main", {"cli"}),
        ("import importlib\nimportlib.import_module('anyorder.cli')", {"cli"}),
        ("if TYPE_CHECKING:\n    import anyorder.cli\nelse:\n    import anyorder.api", {"api"}),
        ("import anyorder", {""}),
        ("import torch", set()),
    ],
)
def test_the_checker_sees_every_kind_of_import(source: str, found: set[str]) -> None:
    assert imports(source, ("anyorder", "policies")) == found
