"""The canvas as a person sees it: events folded into text, one colour per pass, masks where slots are open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel
from rich.style import Style
from rich.text import Text

from anyorder.cli.terminal import safe
from anyorder.events import Decided, Event, Finished, Opened, Remasked, Started

MASK_CELL = "░"
HIDDEN_CELL = "·"  # a control token such as end-of-text
OPEN_STYLE = Style(dim=True)
GIVEN_STYLE = Style(italic=True, dim=True)
# From the first pass to the last; each is readable on a black and on a white background.
SCALE = ((76, 120, 219), (26, 160, 170), (66, 160, 80), (208, 138, 30), (217, 82, 127))
SCALE_CELLS = 10
MAX_PIECE = 8  # slots that one character of UTF-8 may be spread over, with room

Decode = Callable[[Sequence[int]], str]


@dataclass(slots=True)
class Cell:
    """One slot: its token, and the pass that decided it (None: given); no token while it is open."""

    id: int | None = None
    pass_index: int | None = None


def pass_style(pass_index: int, last_pass: int) -> Style:
    """The colour of a pass between the first (blue) and the last so far (red)."""
    place = pass_index / max(last_pass, 1) * (len(SCALE) - 1)
    low = min(int(place), len(SCALE) - 2)
    mix = [round(a + (b - a) * (place - low)) for a, b in zip(SCALE[low], SCALE[low + 1], strict=True)]
    return Style(color=Color.from_triplet(ColorTriplet(*mix)))


class CanvasView:
    """Folds the events of one request.

    Args:
        decode: token ids to text; control tokens become nothing, half a character becomes U+FFFD.
    """

    def __init__(self, decode: Decode) -> None:
        self.cells: list[Cell] = []
        self.answer_start = 0
        self.first = 0  # the first slot shown: a prompt without holes is not
        self.last_pass = 0
        self._decode = decode
        self._pieces: dict[tuple[int, ...], str] = {}

    def apply(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case Started():
                self.cells = [Cell(token) for token in event.ids]
                for slot in event.open:
                    self.cells[slot] = Cell()
                self.answer_start = event.answer_start
                holes = any(slot < event.answer_start for slot in event.open)
                self.first = 0 if holes else event.answer_start
            case Opened():
                self.cells += [Cell() for _ in range(event.end - len(self.cells))]
                for slot, token in event.given:
                    self.cells[slot] = Cell(token)
            case Decided():
                self.last_pass = event.pass_index
                for slot, token in zip(event.slots, event.ids, strict=True):
                    self.cells[slot] = Cell(token, event.pass_index)
            case Remasked():
                for slot in event.slots:
                    self.cells[slot] = Cell()
            case Finished():
                self._drop_open_tail()
            case _:
                pass

    def _drop_open_tail(self) -> None:
        while len(self.cells) > self.first and self.cells[-1].id is None:
            self.cells.pop()

    @property
    def num_open(self) -> int:
        """Slots still masked."""
        return sum(cell.id is None for cell in self.cells)

    @property
    def num_slots(self) -> int:
        """Slots that are or were open."""
        return sum(cell.id is None or cell.pass_index is not None for cell in self.cells)

    def text(self) -> Text:
        """The answer, and the prompt before it if there are holes in it, with a cell for every slot."""
        text = Text(no_wrap=False, overflow="fold")
        for piece, cell in self._runs(len(self.cells), self.first):
            text.append(piece or HIDDEN_CELL, self._style(cell))
        return text

    def answer(self, num_tokens: int, *, behind: int = 0) -> Text:
        """The same for reading: without control tokens, and without what a pass decided behind the answer's end.

        Args:
            num_tokens: length of the finished answer, its stop token not counted.
            behind: leading tokens of it that are left out, with the blanks behind them.
        """
        text = Text(overflow="fold")
        first = self.answer_start + behind if behind else self.first
        for piece, cell in self._runs(self.answer_start + num_tokens, first):
            text.append(piece if text or not behind else piece.lstrip(), self._style(cell))
        text.rstrip()
        return text

    def _style(self, cell: Cell) -> Style:
        if cell.id is None:
            return OPEN_STYLE
        return GIVEN_STYLE if cell.pass_index is None else pass_style(cell.pass_index, self.last_pass)

    def _runs(self, end: int, start: int) -> Iterator[tuple[str, Cell]]:
        """Pieces of text with the cell that colours each: one slot, or all that a character or a row of masks spans."""
        slot = start
        while slot < end:
            cell = self.cells[slot]
            if cell.id is None:
                after = next((i for i in range(slot, end) if self.cells[i].id is not None), end)
                yield MASK_CELL * (after - slot), cell
                slot = after
                continue
            ids = self._whole_characters(slot, end)
            yield safe(self._piece(ids)), self.cells[slot + len(ids) - 1]
            slot += len(ids)

    def _whole_characters(self, slot: int, end: int) -> tuple[int, ...]:
        """The ids from `slot` on that decode without a broken character, or that id alone if none do."""
        ids: tuple[int, ...] = ()
        for cell in self.cells[slot : min(slot + MAX_PIECE, end)]:
            if cell.id is None:
                break
            ids = (*ids, cell.id)
            if "\ufffd" not in self._piece(ids):
                return ids
        return ids[:1]

    def _piece(self, ids: tuple[int, ...]) -> str:
        if ids not in self._pieces:
            self._pieces[ids] = self._decode(ids)
        return self._pieces[ids]


class Frame:
    """A view as a panel that fits on the screen, with what is being decided in sight."""

    def __init__(self, view: CanvasView) -> None:
        self.view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, 100)
        height = max((options.height or console.height) - 4, 3)
        lines = self.view.text().wrap(console, width - 4)
        start = self._first_line(list(lines), height)
        body = Text("\n").join(lines[start : start + height])
        yield Panel(body, title=self._title(), title_align="left", width=width, padding=(0, 1), border_style="grey50")

    def _first_line(self, lines: list[Text], height: int) -> int:
        active = next((i for i, line in enumerate(lines) if MASK_CELL in line.plain), len(lines))
        return max(0, min(active - height // 2, len(lines) - height))

    def _title(self) -> Text:
        view = self.view
        done = view.num_slots - view.num_open
        scale = [("━", pass_style(i, SCALE_CELLS - 1)) for i in range(SCALE_CELLS)]
        return Text.assemble("pass 1 ", *scale, f" {view.last_pass + 1} · {done} of {view.num_slots} slots")
