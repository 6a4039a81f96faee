"""The batch half of `anyorder generate`: every line of a file is answered, and a stopped run can be gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from anyorder.cli.decoding import load_model
from anyorder.cli.flags import Flag
from anyorder.cli.jsonl import Job, Output, read_jobs
from anyorder.cli.progress import counting
from anyorder.cli.prompt import THINKING_IS_FOR_CHATS, prompt_for
from anyorder.cli.terminal import err_console
from anyorder.errors import ContextError, DataError, ParameterError
from anyorder.events import Finished
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder.canvas import Part
    from anyorder.generation import Generation
    from anyorder.models.loaded import LoadedModel
    from anyorder.thinking import Reader

    Encoded = tuple[list[Part], Reader | None]

BATCH_FLAGS = (
    Flag(name="input", type=Path, metavar="FILE.jsonl", panel="Batch",
         help='One {"prompt": ...} or {"messages": ...} per line, with an "id" if you like. A part of a content '
         'may be {"type": "image", "image": FILE}, seen from the folder of the input.'),
    Flag(name="output", type=Path, metavar="FILE.jsonl", panel="Batch",
         help="Where the answers go, one line each. Finished ones are skipped when the command runs again."),
    Flag(name="batch_size", type=int, metavar="N", panel="Batch", shown_default="8", help="Prompts decoded together."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """How the lines of the input are asked."""

    raw: bool
    thinking: bool | None


def run_batch(
    params: dict[str, Any],
    load: dict[str, Any],
    *,
    raw: bool = False,
    thinking: bool | None = None,
    input: Path | None = None,
    output: Path | None = None,
    batch_size: int = 8,
) -> None:
    """Answer the lines of `input` that `output` does not answer yet.

    Args:
        params, load: the flags that the user gave.
        raw: prompts are bare text even if the model knows chats.
        thinking: see `anyorder.stream`.
    Raises:
        ParameterError: a file is not named, or the batch size is below 1.
        DataError: a line of either file is damaged.
    """
    if input is None or output is None:
        missing = [flag for flag, path in (("--input", input), ("--output", output)) if path is None]
        raise ParameterError(f"a batch reads --input and writes --output; {' and '.join(missing)} is missing")
    if batch_size < 1:
        raise ParameterError(f"--batch-size must be at least 1, got {batch_size}")
    if raw and thinking is not None:
        raise ParameterError(f"{THINKING_IS_FOR_CHATS}; drop one of them")
    decode_params = DecodeParams.of(**params)
    jobs = read_jobs(input, images=True)
    asked = {**({"raw": True} if raw else {}), **({} if thinking is None else {"thinking": thinking})}
    with Output(output, {**load, **params, **asked}) as answers:
        remaining = _tell_what_is_left(answers, jobs, err_console())
        if remaining:
            _answer(answers, remaining, len(jobs), decode_params, load, Asked(raw, thinking), batch_size)


def _tell_what_is_left(answers: Output, jobs: list[Job], console: Console) -> list[Job]:
    remaining = answers.remaining(jobs)
    if answers.repaired:
        console.print(f"{answers.path}: cut off a half-written last line; its prompt is answered again", soft_wrap=True)
    if len(remaining) < len(jobs):
        console.print(f"{len(jobs) - len(remaining)} of {len(jobs)} are answered already", soft_wrap=True)
    return remaining


def _answer(
    answers: Output,
    jobs: list[Job],
    total: int,
    params: DecodeParams,
    load: dict[str, Any],
    asked: Asked,
    batch_size: int,
) -> None:
    console = err_console()
    model = load_model(load)
    prompts = _encode(model, jobs, params, asked)
    try:
        with counting(console) as progress:
            task = progress.add_task("answering", total=total, completed=total - len(jobs))
            for job, generation in _answers(model, jobs, prompts, params, asked, batch_size):
                answers.write(job.key, _record(generation))
                progress.advance(task)
    except KeyboardInterrupt:
        done = f"{len(answers.done)} of {total} are in {answers.path}"
        console.print(f"interrupted: {done}; the same command goes on from there", soft_wrap=True)
        raise


def _encode(model: LoadedModel, jobs: list[Job], params: DecodeParams, asked: Asked) -> list[Encoded | None]:
    """All prompts as ids, each with the way its answer is read; one that does not fit is told now, not hours later.

    None is in the place of a prompt with pictures, which are large: it is read again when it is its turn.
    """
    import anyorder
    from anyorder.pictures import Picture

    prompts: list[Encoded | None] = []
    for job in jobs:
        prompt, reader = _encoded(model, job, asked)
        try:
            anyorder.EventStream(model, [prompt], params)
        except ContextError as error:
            raise DataError(f"id {job.key!r} of the input: {error}") from error
        prompts.append(None if any(isinstance(part, Picture) for part in prompt) else (prompt, reader))
    return prompts


def _encoded(model: LoadedModel, job: Job, asked: Asked) -> Encoded:
    from anyorder.api import encoded_prompts

    try:
        [prompt], [reader] = encoded_prompts(model, [prompt_for(model, job.prompt, raw=asked.raw)], asked.thinking)
    except ParameterError as error:
        if error.param not in ("prompt", "messages"):
            raise
        raise DataError(f"id {job.key!r} of the input: {error}") from error
    return prompt, reader


def _answers(
    model: LoadedModel,
    jobs: list[Job],
    prompts: list[Encoded | None],
    params: DecodeParams,
    asked: Asked,
    batch_size: int,
) -> Iterator[tuple[Job, Generation]]:
    """Every job with its answer, in the order in which they finish."""
    import anyorder

    for start in range(0, len(jobs), batch_size):
        batch = zip(jobs[start : start + batch_size], prompts[start : start + batch_size], strict=True)
        encoded, readers = zip(*(prompt or _encoded(model, job, asked) for job, prompt in batch), strict=True)
        stream = anyorder.EventStream(model, encoded, params, readers=readers)
        for event in stream:
            if isinstance(event, Finished):
                yield jobs[start + event.request], stream.generation(event.request)


def _record(generation: Generation) -> dict[str, Any]:
    """The answer and its figures, without prompt and trace."""
    wanted = ("text", "reasoning", "ids", "finish_reason", "stats")
    return {name: value for name, value in generation.as_dict().items() if name in wanted}
