"""What a canvas looks like: the right cell in the right colour, and nothing that could drive the terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from anyorder.cli.canvas_view import HIDDEN_CELL, MASK_CELL, SCALE, CanvasView, Frame, pass_style
from anyorder.events import Committed, Event, Finished, Opened, Started


def decode(ids: Sequence[int]) -> str:
    return bytes(token for token in ids if token < 256).decode(errors="replace")


def view_of(*events: Event) -> CanvasView:
    view = CanvasView(decode)
    for event in events:
        view.apply(event)
    return view


def started(prompt: str, slots: int) -> Started:
    ids = [*prompt.encode(), *[300] * slots]
    return Started(0, tuple(ids), tuple(range(len(prompt), len(ids))), len(prompt))


def committed(pass_index: int, slots: list[int], text: str) -> Committed:
    return Committed(0, pass_index, tuple(slots), tuple(text.encode()), (1.0,) * len(slots))


def shown(view: CanvasView, width: int = 40, height: int = 10) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(Frame(view))
    return console.export_text().splitlines()


def test_a_canvas_shows_committed_text_and_a_cell_for_every_open_slot() -> None:
    view = view_of(started("prompt", 5), committed(0, [8, 6], "cA"))
    assert view.text().plain == f"A{MASK_CELL}c{MASK_CELL}{MASK_CELL}"
    assert (view.num_open, view.num_slots) == (3, 5)


def test_each_pass_has_its_colour_from_first_to_last() -> None:
    view = view_of(started("p", 3), committed(0, [3], "c"), committed(4, [1], "a"), committed(8, [2], "b"))
    styles = {view.text().plain[span.start]: span.style for span in view.text().spans}
    assert styles == {"c": pass_style(0, 8), "a": pass_style(4, 8), "b": pass_style(8, 8)}
    assert len(set(map(str, styles.values()))) == 3
    assert [tuple(pass_style(i, 1).color.triplet) for i in (0, 1)] == [SCALE[0], SCALE[-1]]  # type: ignore[union-attr]


def test_a_growing_canvas_gets_new_cells_and_an_early_stop_drops_the_open_tail() -> None:
    view = view_of(started("p", 2), Opened(0, 3, 6), committed(0, [1, 3], "ab"))
    assert view.text().plain == f"a{MASK_CELL}b{MASK_CELL * 2}"
    view.apply(Finished(0, "stop", 1, 6))
    assert view.text().plain == f"a{MASK_CELL}b"


def test_around_holes_the_prompt_is_shown() -> None:
    view = view_of(Started(0, (97, 300, 99), (1,), 3), committed(0, [1], "b"))
    assert view.text().plain == "abc"
    assert (view.num_open, view.num_slots) == (0, 1)  # what was given does not count
    assert view_of(started("prompt", 1), committed(0, [6], "x")).text().plain == "x"


def test_a_character_spread_over_slots_is_shown_whole_as_soon_as_it_is() -> None:
    first, second = "é".encode()
    view = view_of(started("p", 3), Committed(0, 0, (1,), (first,), (1.0,)))
    assert view.text().plain == f"\ufffd{MASK_CELL * 2}"
    view.apply(Committed(0, 1, (2,), (second,), (1.0,)))
    assert view.text().plain == f"é{MASK_CELL}"


def test_control_tokens_are_dots_in_the_canvas_and_nothing_in_the_answer() -> None:
    view = view_of(started("p", 2), Committed(0, 0, (1, 2), (97, 301), (1.0, 1.0)))
    assert view.text().plain == f"a{HIDDEN_CELL}"
    assert view.answer(2).plain == "a"


def test_what_was_decided_behind_the_end_of_the_answer_is_no_part_of_it() -> None:
    view = view_of(started("p", 6), committed(0, [1, 2, 4, 5, 6], "ab \nx"))
    assert view.answer(2).plain == "ab"
    view.apply(committed(1, [3], "|"))
    assert view.answer(5).plain == "ab|"  # and no blank end


def test_nothing_in_a_token_reaches_the_terminal_as_a_command() -> None:
    text = "\x1b[2J[red]\r\x07\x9b"
    view = view_of(
        started("p", 12), committed(0, list(range(1, 13)), "\x1b[2J[red]\r\x07|"), Finished(0, "length", 1, 1)
    )
    assert view.text().plain == "␛[2J[red]␍␇|"
    assert all(character not in "".join(shown(view)) for character in text if ord(character) < 32)


@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_frame_fits_the_screen_and_keeps_the_active_place_in_sight(width: int) -> None:
    slots = 3000
    view = view_of(started("p", slots), committed(0, list(range(1, 2001)), "x" * 2000))
    lines = shown(view, width=width, height=12)
    assert len(lines) <= 11
    assert max(map(len, lines)) <= min(width, 100)
    assert any("x" in line for line in lines[1:])
    assert any(MASK_CELL in line for line in lines)
    if width >= 80:
        assert "2000 of 3000 slots" in lines[0]
