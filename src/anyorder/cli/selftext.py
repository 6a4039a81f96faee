"""`anyorder selftext`: training text that the model writes itself, for those who have no data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from anyorder.cli.decoding import load_model
from anyorder.cli.files import read_text
from anyorder.cli.flags import LOAD_FLAGS, Flag, takes
from anyorder.cli.selftext_file import Store
from anyorder.cli.terminal import err_console
from anyorder.errors import DataError, ModelError, ParameterError

if TYPE_CHECKING:
    from anyorder.conversion.selftext import Conversation
    from anyorder.models.loaded import LoadedModel
    from anyorder.models.tokenizer import Tokenizer

NAME = "selftext"
HELP = """Let a chat model write its own training text: it invents questions and answers them. Needs no data set.

The text that a model would write anyhow is the best text to convert it with: nothing new has to be learned but the
order of decoding. Every line of OUT has the token ids of a prompt and of its greedy answer, and both as text. A recipe
reads it as data of kind "ids". Stop at any time; the same command goes on where it stopped, with a new seed.
"""
EXAMPLES = """[bold]Examples[/]

anyorder selftext own.jsonl

anyorder selftext own.jsonl --tokens 2000000 --dtype bfloat16

anyorder selftext own.jsonl --model ./Qwen3-0.6B --starters openings.txt --rows 32
"""
TOKENS, ROWS, PROMPT, ANSWER = 200_000, 96, 48, 200
SELFTEXT_FLAGS = (
    Flag(name="tokens", type=int, metavar="N", panel="Text", shown_default=f"{TOKENS:,}",
         help="Tokens of answers that OUT is to hold in the end, those that are there included."),
    Flag(name="prompt_tokens", type=int, metavar="N", panel="Text", shown_default=str(PROMPT),
         help="Longest question, in tokens."),
    Flag(name="answer_tokens", type=int, metavar="N", panel="Text", shown_default=str(ANSWER),
         help="Longest answer, in tokens; longer ones are cut off and have no end."),
    Flag(name="starters", type=Path, metavar="FILE", panel="Text", shown_default="2,500 of our own",
         help="What questions begin with, one per line; the model goes on from there."),
    Flag(name="seed", type=int, metavar="N", panel="Text", shown_default="0",
         help="Of the questions; going on with a file takes the next one that it has not used."),
    Flag(name="rows", type=int, metavar="N", panel="Text", shown_default=str(ROWS),
         help="Conversations written at once; fewer need less memory."),
)  # fmt: skip


@takes(text=SELFTEXT_FLAGS, load=LOAD_FLAGS)
def command(
    out: Annotated[Path, typer.Argument(metavar="OUT.jsonl", help="Appended to if it is there.")],
    *,
    text: dict[str, Any],
    load: dict[str, Any],
) -> None:
    """The file is looked at before the model is loaded."""
    run(out, load, **text)


def run(
    out: Path,
    load: dict[str, Any],
    *,
    tokens: int = TOKENS,
    prompt_tokens: int = PROMPT,
    answer_tokens: int = ANSWER,
    starters: Path | None = None,
    seed: int = 0,
    rows: int = ROWS,
) -> None:
    """Append conversations to `out` until it holds `tokens` tokens of answers."""
    lengths = {"tokens": tokens, "prompt_tokens": prompt_tokens, "answer_tokens": answer_tokens, "rows": rows}
    for name, value in lengths.items():
        if value < 1:
            raise ParameterError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    openings = None if starters is None else _openings(starters)
    console = err_console()
    with Store(out, str(load.get("model", "smollm2"))) as store:
        chosen = store.free_seed(seed)
        if store.repaired:
            console.print(f"{out}: cut off a half-written last line", soft_wrap=True)
        if store.tokens >= tokens:
            console.print(f"{store.summary()}; raise --tokens for more", soft_wrap=True)
            return
        model = load_model(load)
        conversations = _conversations(model, openings, prompt_tokens, answer_tokens, seed=chosen, rows=rows)
        _write(store, conversations, _tokenizer(model), chosen, tokens, console)
        console.print(store.summary(), soft_wrap=True)


def _openings(path: Path) -> list[str]:
    found = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    if not found:
        raise DataError(f"{path} holds no line; write one opening of a question per line")
    return found


def _tokenizer(model: LoadedModel) -> Tokenizer:
    if model.tokenizer is None:
        raise ModelError(f"{model.source} has no tokenizer, so that it cannot write text")
    return model.tokenizer


def _conversations(
    model: LoadedModel, openings: list[str] | None, prompt_tokens: int, answer_tokens: int, *, seed: int, rows: int
) -> Iterator[Conversation]:
    from anyorder.conversion import selftext, starters

    if "causal" not in model.spec.modes:
        raise ModelError(f"{model.source} is no autoregressive model ({model.spec.title}); its text would be another's")
    tokenizer = _tokenizer(model)
    frame = selftext.chat_frame(tokenizer, model.stop_ids)
    begun = starters.encoded(tokenizer, starters.texts() if openings is None else openings)
    longest = len(frame.opening) + len(frame.between) + max(map(len, begun)) + prompt_tokens + answer_tokens
    if longest > model.config.max_context:
        raise ParameterError(
            f"a conversation may come to {longest} tokens, and the model's context is {model.config.max_context}; "
            "lower --prompt-tokens or --answer-tokens"
        )
    limits = selftext.Limits(prompt=prompt_tokens, answer=answer_tokens)
    return selftext.invent(model.network, frame, begun, rows=rows, seed=seed, limits=limits)


def _write(
    store: Store,
    conversations: Iterator[Conversation],
    tokenizer: Tokenizer,
    seed: int,
    wanted: int,
    console: Console,
) -> None:
    try:
        with _progress(console) as progress:
            task = progress.add_task("writing", total=wanted, completed=store.tokens)
            while store.tokens < wanted:
                store.add(next(conversations), tokenizer, seed)
                progress.update(task, completed=store.tokens)
    except KeyboardInterrupt:
        console.print(f"interrupted: {store.summary()}; the same command goes on from there", soft_wrap=True)
        raise


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} tokens"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)
