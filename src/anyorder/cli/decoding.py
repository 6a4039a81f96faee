"""Loading a model and following one answer, with or without a canvas on the screen."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from anyorder.cli.canvas_view import CanvasView, Decode, Frame
from anyorder.cli.figures import figures
from anyorder.cli.terminal import can_animate, err_console, out_console, safe, write_out

if TYPE_CHECKING:
    from anyorder import EventStream
    from anyorder.generation import Generation
    from anyorder.models.loaded import LoadedModel

FRAME_S = 1 / 15  # redrawing more often costs time and shows nothing new


def load_model(flags: dict[str, Any], *, note: str = "") -> LoadedModel:
    """The model that the load flags name, with a word on stderr while it takes its time.

    Args:
        note: added to that word.
    """
    import anyorder

    flags = dict(flags)
    source = flags.pop("model", None)
    with waiting(f"loading {source or 'the default model'}{note}"):
        return anyorder.load(source, **flags)


@contextmanager
def waiting(message: str) -> Generator[None]:
    """A spinner on stderr, where that is a terminal."""
    console = err_console()
    if not console.is_terminal:
        yield
        return
    with console.status(message):
        yield


def decoder_of(model: LoadedModel) -> Decode:
    """Token ids to text; a model without tokenizer shows its ids."""
    if model.tokenizer is None:
        return lambda ids: "".join(f"{token} " for token in ids)
    tokenizer = model.tokenizer

    def decode(ids: Sequence[int]) -> str:
        return tokenizer.decode(list(ids))

    return decode


def show_answer(stream: EventStream, model: LoadedModel, *, animate: bool) -> None:
    """The answer on stdout, coloured by pass behind its canvas or plain; reasoning and figures on stderr."""
    console = out_console()
    if animate and can_animate(console):
        follow(stream, CanvasView(decoder_of(model)), console)
    else:
        generation = stream.generations()[0]
        show_reasoning(generation)
        write_out(whole_text(generation))
    err_console().print(figures(stream.generations()[0]), style="dim", soft_wrap=True)


def show_reasoning(generation: Generation) -> None:
    """What the model said before its answer, dimmed on stderr, where it said something."""
    if generation.reasoning:
        err_console().print(f"{safe(generation.reasoning)}\n", style="dim", soft_wrap=True)


def whole_text(generation: Generation) -> str:
    """The answer; around filled holes also the prompt."""
    return (generation.prompt_text if generation.holes else "") + generation.text


def follow(stream: EventStream, view: CanvasView, console: Console) -> None:
    """Run a stream with its canvas on the console, then leave its text in place of the canvas, its reasoning above it.

    An interrupted stream leaves what was decided, with its masks.
    """
    left: Text | None = None
    try:
        with Live(Frame(view), console=console, auto_refresh=False, transient=True) as live:
            shown_at = 0.0
            for event in stream:
                view.apply(event)
                if time.monotonic() - shown_at >= FRAME_S:
                    live.refresh()
                    shown_at = time.monotonic()
        generation = stream.generations()[0]
        show_reasoning(generation)
        left = view.answer(len(generation.ids), behind=generation.reasoning_tokens)
    finally:
        console.print(view.text() if left is None else left, soft_wrap=True)
        console.print()
