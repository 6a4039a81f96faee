"""Draws docs/assets/generate.svg, the README's picture of a canvas half filled and full, with the default model.

.venv/bin/python scripts/picture.py
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.text import Text

import anyorder
from anyorder.cli.canvas_view import CanvasView, Frame
from anyorder.cli.decoding import decoder_of
from anyorder.cli.figures import figures
from anyorder.events import Committed

TARGET = Path(__file__).parents[1] / "docs" / "assets" / "generate.svg"
PROMPT = "Why is the sky blue?"
SLOTS = 64


def main() -> None:
    """Decode, draw, save."""
    console = Console(record=True, width=80, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    model = anyorder.load()
    stream = anyorder.stream(model, [{"role": "user", "content": PROMPT}], max_new_tokens=SLOTS)
    view = CanvasView(decoder_of(model))
    console.print(Text(f'$ anyorder generate "{PROMPT}" --max-new-tokens {SLOTS}', style="bold"))
    for event in stream:
        view.apply(event)
        if isinstance(event, Committed) and view.num_open == SLOTS // 2:
            console.print(Frame(view))
            console.print(Text("   ⋮", style="dim"))
    console.print(view.answer(len(stream.generations()[0].ids)))
    console.print(Text("\n" + figures(stream.generations()[0]), style="dim"))
    svg = console.export_svg(title="anyorder generate")
    TARGET.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), "utf-8")  # it would fetch a font


if __name__ == "__main__":
    main()
