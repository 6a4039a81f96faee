"""What `--seams` shows under an answer: how much the passes lost, and which tokens contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

from anyorder.cli.canvas_view import HIDDEN_CELL, Decode
from anyorder.cli.decoding import decoder_of, waiting
from anyorder.cli.terminal import err_console, one_line

if TYPE_CHECKING:
    from anyorder import EventStream
    from anyorder.models.loaded import LoadedModel
    from anyorder.params import DecodeParams
    from anyorder.seams import Pair, PassGap, SeamReport

SEAM = Style(color="red", bold=True, underline=True)
SHOWN = 5
AROUND = 6
"""Tokens of text shown on either side of a seam."""


def show_seams(stream: EventStream, model: LoadedModel, params: DecodeParams) -> None:
    """Measure a finished answer and print what was found to stderr."""
    from anyorder.seams import measure_seams

    with waiting("asking the model about every pass"):
        report = measure_seams(model, stream.events, params)
    answer = stream.generations()[0]
    err_console().print(seams_text(report, answer.prompt_ids + answer.ids, decoder_of(model)), soft_wrap=True)


def seams_text(report: SeamReport, ids: tuple[int, ...], decode: Decode) -> Text:
    """The report in a few lines.

    Args:
        ids: of the whole canvas.
    """
    if not report.passes:
        return Text("no seams: no pass committed several slots of the text")
    seams = report.worst(SHOWN)
    total = sum(len(each.slots) for each in report.passes)
    text = Text(
        f"{total} slots were committed together in {_count(len(report.passes), 'pass')}; "
        f"gap {report.gap:+.2f} nats, worst pass {report.worst_gap:+.2f}"
    )
    if not seams:
        text.append("\nno two tokens of a pass contradict each other")
    for each, pair in seams:
        text.append("\n")
        text.append_text(_seam(each, pair, ids, decode))
    return text


def _seam(each: PassGap, pair: Pair, ids: tuple[int, ...], decode: Decode) -> Text:
    line = Text(f"  pass {each.pass_index:<3} {pair.gain:+7.2f} nats  ")
    shown = sorted({near for slot in pair.slots for near in range(max(slot - AROUND, 0), slot + AROUND + 1)})
    before = -1
    for slot in (slot for slot in shown if slot < len(ids) or slot in pair.slots):
        line.append("..." if slot != before + 1 else "")
        piece = _piece(decode, ids[slot : slot + 1])
        line.append(f"[{piece}]" if slot in pair.slots else piece, SEAM if slot in pair.slots else "")
        before = slot
    return line


def _piece(decode: Decode, token: tuple[int, ...]) -> str:
    """The text of one token on one line; a control token, which ends the answer, is shown as a dot."""
    text = decode(token)
    return (" " if text[:1].isspace() else "") + one_line(text) or HIDDEN_CELL


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}es"
