"""The measuring half of `anyorder convert`: load the two models, measure, write the page."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from anyorder.cli.decoding import load_model
from anyorder.cli.flags import Flag, parse_list
from anyorder.cli.jsonl import read_jobs
from anyorder.cli.progress import counting
from anyorder.cli.terminal import err_console, write_out
from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from anyorder.conversion.heldout import Question
    from anyorder.conversion.measure import Task
    from anyorder.conversion.report import Progress
    from anyorder.models.loaded import LoadedModel

ANSWER, THRESHOLDS = 160, "0.5,0.7,0.8,0.9,0.95,0.99"


REPORT_FLAGS = (
    Flag(name="base", type=str, metavar="SOURCE", panel="Report", shown_default="MODEL without its adapter",
         help="The autoregressive model that MODEL was made from, to compare with."),
    Flag(name="prompts", type=Path, metavar="FILE.jsonl", panel="Report", shown_default="40 of the package",
         help='Held-out prompts of your own: {"prompt": ...} or {"messages": ...} per line, with an "id" if you like.'),
    Flag(name="limit", type=int, metavar="N", panel="Report", shown_default="all",
         help="Measure with the first N prompts only, for a quick look."),
    Flag(name="max_new_tokens", type=int, metavar="N", panel="Report", shown_default=str(ANSWER),
         help="Longest answer, in tokens."),
    Flag(name="thresholds", type=tuple, metavar="X,X,...", panel="Report", shown_default=THRESHOLDS,
         parser=parse_list(float, "0.7,0.9"),
         help="Thresholds at which the model decodes in any order, with nothing verified."),
    Flag(name="fresh", type=bool, panel="Report", help="Begin anew, whatever the folder holds."),
)  # fmt: skip


def measure(
    source: str | None,
    load: dict[str, Any],
    out: Path,
    *,
    base: str | None = None,
    prompts: Path | None = None,
    limit: int | None = None,
    max_new_tokens: int = ANSWER,
    thresholds: tuple[float, ...] | None = None,
    fresh: bool = False,
) -> None:
    """Measure `source` into report.json and report.html in `out`; say the verdict.

    Args:
        source: model or run folder; None is the default model.
        load: the load flags that the user gave.
    """
    asked = questions(prompts, limit)  # a damaged file is told before anything is loaded
    model, reference = _pair(source, base, load)
    from anyorder.conversion.heldout import encode
    from anyorder.conversion.measure import THRESHOLDS, Subject
    from anyorder.conversion.report import report
    from anyorder.conversion.run_folder import read_run
    from anyorder.conversion.verdict import verdicts

    subject = Subject(
        model=model,
        base=reference,
        prompts=encode(model, asked),
        max_new_tokens=max_new_tokens,
        thresholds=THRESHOLDS if thresholds is None else thresholds,
    )
    console = err_console()
    with _telling(console, out) as progress:
        summary = report(subject, out, run=read_run(Path(source or "")), fresh=fresh, progress=progress)
    for verdict in verdicts(summary):
        write_out(f"{verdict.lead} {verdict.text}")
    console.print(f"the page is {out / 'report.html'}, its figures are in report.json beside it", soft_wrap=True)


def questions(path: Path | None, limit: int | None) -> list[Question]:
    """The held-out prompts of a file, or the fixed ones."""
    if limit is not None and limit < 1:
        raise ParameterError(f"--limit must be at least 1, got {limit}")
    from anyorder.conversion.heldout import Question, fixed_questions

    if path is None:
        return fixed_questions()[:limit]
    return [
        Question(
            id=str(job.key),
            category="",
            messages=({"role": "user", "content": job.prompt},) if isinstance(job.prompt, str) else tuple(job.prompt),
        )
        for job in read_jobs(path)[:limit]
    ]


def _pair(source: str | None, base: str | None, load: dict[str, Any]) -> tuple[LoadedModel, LoadedModel]:
    """The model, and the one that it came from, in the same number format and on the same device."""
    model = load_model({**load, "model": source})
    base = base or _base_of(source, model, load)
    if base is None:
        return model, model
    same = {"dtype": model.dtype, "device": model.device, "offline": load.get("offline", False)}
    return model, load_model({**same, "model": base, "adapter": False})


def _base_of(source: str | None, model: LoadedModel, load: dict[str, Any]) -> str | None:
    """What a model was made from, as far as its folder says; None: it was not converted and is measured by itself."""
    from anyorder.conversion.run_folder import read_run
    from anyorder.models.load.adapter import AdapterFiles, is_adapter
    from anyorder.models.load.source import DEFAULT, locate

    if model.adapter is not None:
        folder = locate(source, offline=load.get("offline", False))
        return AdapterFiles.of(folder).base if is_adapter(folder) else source or DEFAULT
    base = read_run(Path(source or DEFAULT)).base
    if base is None and (model.spec.attention != "causal" or model.spec.blocks_both_ways):
        raise ParameterError(
            f"{model.source} does not say which autoregressive model it was made from; name it with --base"
        )
    return base


@contextmanager
def _telling(console: Console, out: Path) -> Generator[Progress]:
    """A bar that says what is being measured; after Ctrl-C, what is kept."""
    with counting(console) as bar:
        shown = bar.add_task("measuring", total=None)

        def tell(task: Task | None, done: int, total: int) -> None:
            if done and bar.tasks[0].total is None:
                bar.console.print(f"{done} of {total} measurements are there already", soft_wrap=True)
            title = task.section.title if task else "measured"
            bar.update(shown, description=title, completed=done, total=total)

        try:
            yield tell
        except KeyboardInterrupt:
            done = f"{bar.tasks[0].completed:.0f} of {bar.tasks[0].total or 0:.0f} measurements are in {out}"
            bar.console.print(f"interrupted: {done}; the same command goes on from there", soft_wrap=True)
            raise
