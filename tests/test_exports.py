"""The public names: pinned, documented, and free until they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import anyorder

PUBLIC = {
    "AnyorderError", "ChatSession", "DecodeParams", "EventStream", "Generation", "Hole", "Image", "Stats",
    "generate", "generate_batch", "infill", "load", "score", "stream",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(anyorder.__all__) == PUBLIC
    assert len(anyorder.__all__) == len(PUBLIC)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert (inspect.getdoc(getattr(anyorder, name)) or "").strip()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'decode_everything'"):
        _ = anyorder.decode_everything  # type: ignore[attr-defined]


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, anyorder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_function_takes_keywords_after_its_subject() -> None:
    for name in ("load", "generate", "stream", "infill", "generate_batch"):
        positional = [
            parameter.name
            for parameter in inspect.signature(getattr(anyorder, name)).parameters.values()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        assert positional[0] in ("source", "model")
        assert len(positional) <= 3


def test_the_package_says_that_it_is_typed_and_which_version_it_is() -> None:
    root = Path(__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert (Path(anyorder.__file__).parent / "py.typed").exists()
    assert project["tool"]["hatch"]["version"]["path"] == "src/anyorder/__init__.py"
    assert anyorder.__version__.count(".") == 2
