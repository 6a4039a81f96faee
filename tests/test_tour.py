"""docs/tour.md follows a request through the code: what it names must exist, be called, and be called in its order."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

import anyorder
from anyorder.cli.app import run

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "anyorder"
TOUR = (ROOT / "docs" / "tour.md").read_text("utf-8")
STOPS = re.split(r"^## (?=\d+\. )", TOUR, flags=re.MULTILINE)[1:]
NAME = re.compile(r"`([\w/]+)\.py::([\w.]+)`")
NAMES = [(file, name) for stop in STOPS for file, name in NAME.findall(stop)]
Place = tuple[str, str]
"""A file below src/anyorder, without its suffix, and a qualified name in it."""


def find(file: str, name: str) -> Any:
    """The function, method, property or class of that name."""
    module = import_module("anyorder." + file.replace("/", ".").removesuffix(".__init__"))
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    return found


def is_called(thing: Any) -> bool:
    return not inspect.isclass(thing)


def test_the_tour_has_ten_stops() -> None:
    assert [int(stop.partition(".")[0]) for stop in STOPS] == list(range(1, 11))
    assert all(NAME.search(stop) for stop in STOPS)


@pytest.mark.parametrize(("file", "name"), NAMES, ids=[f"{file}::{name}" for file, name in NAMES])
def test_what_the_tour_names_is_where_it_says(file: str, name: str) -> None:
    thing = find(file, name)
    home = getattr(inspect.unwrap(thing), "__module__", None) if callable(thing) else None
    assert home is None or SOURCE.joinpath(*home.split(".")[1:]) in (SOURCE / file, (SOURCE / file).parent)


class Letters:
    """Any text is letters, any letter is a token; the reference models have no tokenizer of their own."""

    has_chat_template = False

    def encode_text(self, text: str, *, bos: bool = False) -> list[int]:
        return [ord(letter) % 128 for letter in text]

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return " ".join(map(str, ids))


@pytest.fixture(scope="module")
def calls() -> dict[Place, int]:
    """The order in which the functions of this package are first called by the request of the tour."""
    order: dict[Place, int] = {}
    load = anyorder.load

    def load_with_letters(*args: Any, **kwargs: Any) -> Any:
        model = load(*args, **kwargs)
        model.tokenizer = cast(Any, Letters())
        return model

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)):
            place = (file.removeprefix(f"{SOURCE}/").removesuffix(".py"), frame.f_code.co_qualname)
            order.setdefault(place, len(order))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyorder, "load", load_with_letters)
        folder = str(ROOT / "tests" / "reference" / "sdar")
        sys.setprofile(note)
        try:
            code = run(["generate", "Why is the sky blue?", "--model", folder, "--max-new-tokens", "12"])
        finally:
            sys.setprofile(None)
    assert code == 0
    return order


def test_the_request_of_the_tour_calls_what_the_tour_names(calls: dict[Place, int]) -> None:
    unused = [f"{file}::{name}" for file, name in NAMES if is_called(find(file, name)) and (file, name) not in calls]
    assert not unused


def test_the_stops_are_in_the_order_of_the_request(calls: dict[Place, int]) -> None:
    first = [next(calls[place] for place in NAME.findall(stop) if place in calls) for stop in STOPS]
    assert first == sorted(first)


def test_a_moved_function_is_noticed() -> None:
    """The checks above must be able to fail."""
    with pytest.raises(AttributeError):
        find("engine/loop", "Engine.walk")
    with pytest.raises(ModuleNotFoundError):
        find("engine/elsewhere", "Engine")
