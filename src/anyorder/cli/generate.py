"""`anyorder generate`: one answer in the terminal, or a file of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.batch import BATCH_FLAGS, run_batch
from anyorder.cli.decoding import load_model, show_answer
from anyorder.cli.files import read_image
from anyorder.cli.flags import DECODE_FLAGS, LOAD_FLAGS, Flag, takes, thinking_flag
from anyorder.cli.preset import PRESET_FLAGS, with_preset
from anyorder.cli.prompt import PromptRequest, prompt_text
from anyorder.cli.seams_view import show_seams
from anyorder.errors import ParameterError
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel

NAME = "generate"
HELP = """Answer a prompt, with the canvas filling in front of you.

The answer goes to stdout, its figures and what the model reasoned before it to stderr. On a terminal each slot has the
colour of the pass that decided it, from blue (first) to red (last). A chat model gets your prompt through its chat
template; --raw continues the bare text.
"""
EXAMPLES = """[bold]Examples[/]

anyorder generate "Why is the sky blue?" --max-new-tokens 64

anyorder generate "Write a haiku" --mode block --threshold 0.8 --temperature 0.7 --seed 3

anyorder generate "The capital of" --hole 4 --then " is Paris."

git diff | anyorder generate - --system "Write a commit message for this diff." --json

anyorder generate "What is this?" --image cat.png --model google/diffusiongemma-26B-A4B-it

anyorder generate "Name three cities" --mode block --threshold 0.4 --seams

anyorder generate --input prompts.jsonl --output answers.jsonl --batch-size 4
"""

ASK_FLAGS = (
    Flag(name="prompt_file", type=Path, metavar="FILE", panel="Prompt", help="Read the prompt from a UTF-8 file."),
    Flag(name="system", type=str, metavar="TEXT", panel="Prompt", help="System message of the chat template."),
    Flag(name="image", type=list[Path], metavar="FILE", panel="Prompt",
         help="Show an image before the prompt, to a model that reads images. Repeat it for more."),
    Flag(name="raw", type=bool, panel="Prompt", help="Continue the bare text, without chat template."),
    thinking_flag("Prompt"),
    Flag(name="hole", type=list[int], metavar="N", panel="Prompt",
         help="Infill: a gap of N tokens behind the prompt. Repeat it for more gaps."),
    Flag(name="then", type=list[str], metavar="TEXT", panel="Prompt",
         help="Infill: the text behind a gap. The n-th --then follows the n-th --hole."),
)  # fmt: skip
SHOW_FLAGS = (
    Flag(name="json", type=bool, panel="Output",
         help="Print everything as JSON: text, ids, figures, and for every slot its pass and confidence."),
    Flag(name="seams", type=bool, panel="Output",
         help="Show which tokens of one pass contradict each other. Takes two more windows per such slot."),
    Flag(name="no_live", type=bool, panel="Output", help="Plain text, no canvas; what pipes and NO_COLOR get anyhow."),
)  # fmt: skip


@takes(ask=ASK_FLAGS, load=LOAD_FLAGS, preset=PRESET_FLAGS, params=DECODE_FLAGS, show=SHOW_FLAGS, batch=BATCH_FLAGS)
def command(
    prompt: Annotated[
        str | None, typer.Argument(help="The prompt; - reads standard input.", show_default=False)
    ] = None,
    *,
    ask: dict[str, Any],
    preset: dict[str, Any],
    params: dict[str, Any],
    load: dict[str, Any],
    show: dict[str, Any],
    batch: dict[str, Any],
) -> None:
    """Checks first everything that can be checked without the model."""
    params = with_preset(params, **preset)
    if batch:
        _refuse_beside_batch(prompt, ask, show)
        return run_batch(params, load, raw="raw" in ask, thinking=ask.get("thinking"), **batch)
    if "image" in ask and "seams" in show:
        raise ParameterError("--seams are told of text, and --image shows an image; drop one of them")
    request = _request(prompt, **ask)
    if request.hole:
        params.setdefault("max_new_tokens", 0)  # as `anyorder.infill`: nothing behind the text unless asked for
    decode_params = DecodeParams.of(**params)
    model = load_model(load)
    if "seams" in show:
        _check_seams(model, decode_params)
    if "json" in show:
        _print_json(model, request, decode_params, seams="seams" in show)
    else:
        _show(model, request, decode_params, animate="no_live" not in show, seams="seams" in show)


def _check_seams(model: LoadedModel, params: DecodeParams) -> None:
    from anyorder.seams import check_seams

    check_seams(model, params)


def _refuse_beside_batch(prompt: str | None, ask: dict[str, Any], show: dict[str, Any]) -> None:
    beside = [f"--{name.replace('_', '-')}" for name in (*ask, *show) if name not in ("raw", "thinking")]
    beside += [] if prompt is None else ["the prompt"]
    if beside:
        raise ParameterError(f"a batch takes its prompts from --input; drop {', '.join(beside)}")


def _request(
    prompt: str | None,
    *,
    prompt_file: Path | None = None,
    hole: Sequence[int] = (),
    then: Sequence[str] = (),
    image: Sequence[Path] = (),
    **ask: Any,
) -> PromptRequest:
    starts_with_hole = prompt is None and prompt_file is None and bool(hole)
    text = "" if starts_with_hole else prompt_text(prompt, prompt_file)
    images = tuple(read_image(path) for path in image)
    return PromptRequest(text=text, hole=tuple(hole), then=tuple(then), image=images, **ask)


def _show(model: LoadedModel, request: PromptRequest, params: DecodeParams, *, animate: bool, seams: bool) -> None:
    import anyorder

    stream = anyorder.stream(model, request.for_model(model), params, thinking=request.thinking)
    show_answer(stream, model, animate=animate)
    if seams:
        show_seams(stream, model, params)


def _print_json(model: LoadedModel, request: PromptRequest, params: DecodeParams, *, seams: bool) -> None:
    import anyorder
    from anyorder.seams import measure_seams

    stream = anyorder.stream(model, request.for_model(model), params, thinking=request.thinking)
    record = {"model": model.source, **stream.generations()[0].as_dict()}
    if seams:
        record["seams"] = measure_seams(model, stream.events, params).as_dict()
    sys.stdout.write(json.dumps(record, indent=2) + "\n")  # escaped to ASCII: safe on any terminal, in any encoding
