"""Flags that several commands share, made from what they set: each is written down once.

The flags of a decode are the fields of `DecodeParams`: name, type, default and help come from there.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from anyorder import params as params_module
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES

PANELS: dict[str, tuple[str, ...]] = {
    "Decoding": ("max_new_tokens", "mode", "policy", "steps", "threshold", "factor", "entropy_bound",
                 "entropy_threshold", "position_penalty", "alg_temp", "eps", "noise", "window", "block_length",
                 "sub_block_length", "edit_threshold", "edit_passes", "edit_blocks",
                 "first_block_length", "growth", "draft", "draft_length", "t_min", "t_max", "stability_threshold",
                 "confidence_threshold"),
    "Sampling": ("temperature", "top_p", "top_k", "seed", "cfg_scale", "top_logprobs"),
    "Tokens": ("stop_ids", "logit_bias", "banned_ids", "forced", "logits_eos_inf", "confidence_eos_eot_inf"),
    "Cache": ("cache", "measure_drift"),
}  # fmt: skip
"""Help panel -> the fields of `DecodeParams` in it."""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One option, not yet bound to a command. It is left out (None) unless the user gives it."""

    name: str  # the argument it sets; the flag is the same with dashes
    type: Any  # what typer shall read
    help: str
    panel: str
    shown_default: str | bool = False
    metavar: str | None = None
    parser: Callable[[str], Any] | None = None
    has_opposite: bool = False  # a --no-NAME beside it

    def parameter(self) -> inspect.Parameter:
        """The flag as typer reads it from a signature."""
        dashed = self.name.replace("_", "-")
        option = typer.Option(
            f"--{dashed}/--no-{dashed}" if self.has_opposite else f"--{dashed}",
            help=self.help,
            rich_help_panel=self.panel,
            show_default=self.shown_default,
            metavar=self.metavar,
            parser=self.parser,
        )
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(self.name, kind, default=None, annotation=Annotated[self.type | None, option])


def thinking_flag(panel: str) -> Flag:
    """`--thinking/--no-thinking` in a help panel."""
    told = "In a chat, reason before the answer, or do not. Left out, the chat template decides."
    return Flag(name="thinking", type=bool, panel=panel, help=told, has_opposite=True)


def takes(**groups: tuple[Flag, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator: the command gets, under each group's name, a dict of those of its flags that the user gave."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_groups(**values: Any) -> None:
            for group, flags in groups.items():
                given = {flag.name: values.pop(flag.name) for flag in flags}
                values[group] = {name: value for name, value in given.items() if value is not None}
            command(**values)

        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name not in groups]
        shared = [flag.parameter() for flags in groups.values() for flag in flags]
        parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared
        setattr(with_groups, "__signature__", inspect.Signature(parameters))  # noqa: B010 - unknown to type checkers
        with_groups.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_groups

    return decorate


def field_docs(source: str, class_name: str) -> dict[str, str]:
    """The docstring under each field of a class; Python keeps them in the source only."""
    found = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == class_name]
    body = found[0].body
    docs: dict[str, str] = {}
    for node, after in pairwise(body):
        match node, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs


def parse_ids(text: str) -> tuple[int, ...]:
    """`5,6` -> (5, 6); an empty text -> ()."""
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of token ids; write them as 5,6") from None


def parse_list(kind: type, example: str, *, blanks: bool = True) -> Callable[[str], tuple[Any, ...]]:
    """A parser of `256,128` -> (256, 128).

    Args:
        example: what the errors show.
        blanks: pass over empty places, as behind a last comma; False refuses them.
    """
    noun = "value" if kind is str else "number"

    def parse(text: str) -> tuple[Any, ...]:
        try:
            values = tuple(kind(part.strip()) for part in text.split(",") if part.strip() or not blanks)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is no list of numbers; write them as {example}") from None
        if not values:
            raise typer.BadParameter(f"no {noun} given; write them as {example}")
        return values

    return parse


def parse_pairs(value_type: type[int] | type[float]) -> Callable[[str], dict[int, Any]]:
    """A parser of `5=-1.5,6=2` -> {5: -1.5, 6: 2.0}."""

    def parse(text: str) -> dict[int, Any]:
        try:
            pairs = [part.split("=") for part in text.split(",") if part.strip()]
            return {int(key): value_type(value) for key, value in pairs}
        except ValueError:
            raise typer.BadParameter(f"{text!r} is no list of pairs; write them as 5=1,6=2") from None

    return parse


def _reading(hint: Any) -> dict[str, Any]:
    """How typer shall read a field of this type: type, metavar and parser of its flag."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is tuple:
        return {"type": tuple, "metavar": "ID,ID,...", "parser": parse_ids}
    if get_origin(hint) is Mapping:
        value_type = get_args(hint)[1]
        metavar = "OFFSET=ID,..." if value_type is int else "ID=BIAS,..."
        return {"type": dict, "metavar": metavar, "parser": parse_pairs(value_type)}
    if hint is bool:
        return {"type": bool}
    if get_origin(hint) is Literal:
        return {"type": str, "metavar": "NAME"}  # its values are checked, with all others, by DecodeParams
    return {"type": hint, "metavar": {int: "N", float: "X", str: "NAME"}[hint]}


def _decode_flags() -> tuple[Flag, ...]:
    docs = field_docs(Path(params_module.__file__).read_text("utf-8"), "DecodeParams")
    hints = get_type_hints(DecodeParams)
    defaults = {field.name: field.default for field in fields(DecodeParams)}
    return tuple(
        Flag(
            name=name,
            help=_in_shell_words(docs[name]) + (f" Known: {', '.join(POLICIES)}." if name == "policy" else ""),
            panel=panel,
            shown_default=_shown(defaults[name]),
            **_reading(hints[name]),
        )
        for panel, names in PANELS.items()
        for name in names
    )


def _in_shell_words(doc: str) -> str:
    """A docstring speaks of Python values, a help text of flags."""
    return doc.replace("None:", "Left out:").replace("()", '""')


def _shown(default: Any) -> str | bool:
    return str(default) if isinstance(default, str | int | float) and not isinstance(default, bool) else False


DECODE_FLAGS = _decode_flags()

LOAD_FLAGS = (
    Flag(name="model", type=str, metavar="SOURCE", panel="Model", shown_default="SmolLM2-135M-Instruct, embedded",
         help="A folder with config.json and safetensors, a GGUF file, or a hub id like GSAI-ML/LLaDA-8B-Instruct."),
    Flag(name="revision", type=str, metavar="REV", panel="Model", help="Branch, tag or commit of a hub id."),
    Flag(name="dtype", type=str, metavar="NAME", panel="Model", shown_default="auto",
         help="Number format: float32, bfloat16, float16, float64; auto takes what suits the checkpoint."),
    Flag(name="quantize", type=str, metavar="NAME", panel="Model",
         help="Keep the weights in fewer bits: int8, int8-dynamic, int4. `anyorder inspect --quantize` compares them."),
    Flag(name="device", type=str, metavar="NAME", panel="Model", shown_default="auto",
         help="cpu, cuda, cuda:1, mps; auto takes an accelerator if there is one."),
    Flag(name="mask_token_id", type=int, metavar="ID", panel="Model",
         help="The id of the mask token, where the checkpoint does not say it."),
    Flag(name="shift", type=bool, has_opposite=True, panel="Model", shown_default="the family's",
         help="Do the logits of a position predict the next token? `anyorder inspect --check` tries it."),
    Flag(name="verify", type=bool, has_opposite=True, panel="Model", shown_default="for models that denoise",
         help="Check the shift of the logits after loading, and stop if it is not the family's."),
    Flag(name="offline", type=bool, panel="Model", help="Use only hub files that are on this machine."),
)  # fmt: skip
