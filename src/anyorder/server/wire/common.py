"""The parameters that all surfaces share, and how they become `DecodeParams`."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from anyorder.errors import ParameterError
from anyorder.params import DecodeParams, did_you_mean
from anyorder.server.errors import bad_request, unsupported

MAX_STOPS, MAX_STOP_LENGTH, MAX_BIASES = 4, 64, 300

EXTENSIONS = (
    "mode", "policy", "steps", "threshold", "factor", "entropy_bound", "entropy_threshold", "position_penalty",
    "alg_temp", "eps", "noise", "t_min", "t_max", "stability_threshold", "confidence_threshold", "window",
    "block_length", "sub_block_length", "first_block_length", "edit_threshold", "edit_passes", "edit_blocks", "growth",
    "draft", "draft_length", "cfg_scale", "cache", "stop_ids", "banned_ids", "forced", "logits_eos_inf",
    "confidence_eos_eot_inf",
)  # fmt: skip
"""Fields of `DecodeParams` that a request may set in its object `diffusion`."""

StreamFormat = Literal["text", "snapshots", "events"]


class Wire(BaseModel):
    """Base of what clients send: exact types, no unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class StreamOptions(Wire):
    """`stream_options` of a request."""

    include_usage: bool = False
    include_obfuscation: Literal[False] = False


class Common(Wire):
    """Parameters that mean the same on every surface."""

    max_stops: ClassVar[int] = MAX_STOPS

    model: str
    n: Annotated[int, Field(ge=1)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool = False
    realtime: bool = False
    """Ahead of the requests that are not."""
    diffusing: bool = False
    """Stream snapshots of the whole answer, masks included (Inception's flag)."""
    stream_format: StreamFormat | None = None
    """What a stream carries; `diffusing` is short for snapshots."""
    seams: bool = False
    """End a stream of events with what each pass lost by drawing its slots apart."""
    diffusion: dict[str, Any] | None = None
    """How to decode: see `EXTENSIONS`."""

    @property
    def choices(self) -> int:
        """Answers per prompt."""
        return self.n or 1

    @property
    def format(self) -> StreamFormat | None:
        """What is streamed; None: nothing, the answer comes as one JSON object."""
        wanted = "snapshots" if self.diffusing else self.stream_format
        if self.diffusing and self.stream_format not in (None, "snapshots"):
            raise bad_request("`diffusing` streams snapshots; drop it or `stream_format`", param="stream_format")
        if wanted is not None and self.stream is False:
            name = "diffusing" if self.diffusing else "stream_format"
            raise bad_request(f"`{name}` says how to stream, and `stream` is false; drop one", param=name)
        return wanted or ("text" if self.stream else None)

    @property
    def includes_usage(self) -> bool:
        """True if the stream ends with the usage."""
        streams = self.format is not None
        if self.stream_options is not None and not streams:
            raise bad_request("`stream_options` goes with `stream`: true", param="stream_options")
        return self.stream_options is not None and self.stream_options.include_usage

    def check_stream(self) -> None:
        """Refuse parameters of streams that contradict each other."""
        _ = self.includes_usage
        if self.seams and self.format != "events":
            raise bad_request('`seams` goes with `stream_format`: "events"', param="seams")

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings, checked."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stops) > self.max_stops:
            raise bad_request(f"`stop` takes at most {self.max_stops} texts, got {len(stops)}", param="stop")
        if not all(0 < len(stop) <= MAX_STOP_LENGTH for stop in stops):
            raise bad_request(f"a text of `stop` has 1 to {MAX_STOP_LENGTH} characters", param="stop")
        return tuple(stops)


class Limited(Common):
    """A request whose longest answer has two names."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None

    @property
    def limit(self) -> tuple[int | None, str]:
        """Longest answer, None if it is left to the server, and the parameter that says so."""
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise bad_request("`max_tokens` and `max_completion_tokens` differ; send one", param="max_tokens")
        if self.max_completion_tokens is not None:
            return self.max_completion_tokens, "max_completion_tokens"
        return self.max_tokens, "max_tokens"


@dataclass(frozen=True)
class Neutral:
    """A parameter that is only accepted where it asks for nothing."""

    values: Sequence[Any]
    """What may be sent besides null; () nothing, None in it anything of the right kind."""
    reason: str


LABELS = (
    "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "metadata", "parallel_tool_calls",
    "nextEdit",
)  # fmt: skip
"""Parameters that label a request: accepted, and without influence on the answer where they come from either."""

PENALTY = "penalties depend on the order of the tokens, which any-order decoding does not have"
_TOOLS = "tools are for chats"
_FUNCTIONS = "this is the old way; use `tools` and `tool_choice`"
_SUMMARY = "reasoning comes as it is, in `reasoning_content`; nothing summarises it"
NEUTRAL: dict[str, Neutral] = {
    "frequency_penalty": Neutral((0,), PENALTY),
    "presence_penalty": Neutral((0,), PENALTY),
    "repetition_penalty": Neutral((1,), PENALTY),
    "min_p": Neutral((0,), "there is no such filter; use top_p or top_k"),
    "tools": Neutral(([],), _TOOLS),
    "tool_choice": Neutral(("none", "auto"), _TOOLS),
    "functions": Neutral(([],), _FUNCTIONS),
    "function_call": Neutral(("none", "auto"), _FUNCTIONS),
    "response_format": Neutral(({"type": "text"},), "structure is not guaranteed yet, and not pretended"),
    "reasoning_effort": Neutral(("none", "minimal", "instant"), "reasoning is for chats"),
    "reasoning_summary": Neutral((False,), _SUMMARY),
    "reasoning_summary_wait": Neutral((False,), _SUMMARY),
    "modalities": Neutral((["text"],), "the model reads and writes text"),
    "audio": Neutral((), "the model reads and writes text"),
    "prediction": Neutral((), "an expected answer is not used"),
    "web_search_options": Neutral((), "this server searches nothing"),
    "moderation": Neutral((), "this server has no moderation"),
    "store": Neutral((False,), "this server stores nothing"),
    "service_tier": Neutral(("auto", "default"), "there is one tier; `realtime` goes first"),
    "mode": Neutral(("chat",), "the endpoint says what is asked for"),
    "extra_body": Neutral(({},), "send its fields beside the others"),
    "verbosity": Neutral(("medium",), "the model has no such setting; ask for it in the prompt"),
}
"""OpenAI's and Inception's parameters that are refused unless they ask for nothing."""


def without_neutral(data: dict[str, Any], read: Collection[str] = ()) -> dict[str, Any]:
    """The request without its labels and without parameters that ask for nothing.

    Args:
        read: parameters that this surface reads itself.
    Raises:
        ApiError: one of them asks for something.
    """
    kept: dict[str, Any] = {}
    for name, value in data.items():
        rule = None if name in read else NEUTRAL.get(name)
        if value is None or (name in LABELS and name not in read):
            continue
        if rule is None:
            kept[name] = value
        else:
            check_neutral(name, value, rule)
    return kept


def check_neutral(name: str, value: Any, rule: Neutral) -> None:
    """Refuse a parameter that asks for something.

    Raises:
        ApiError: it does.
    """
    if any(value == neutral and type(value) in _kinds(neutral) for neutral in rule.values):
        return
    allowed = " or ".join(map(repr, rule.values))
    raise unsupported(name, f"`{name}`: {rule.reason}; leave it out" + (f" or use {allowed}" if allowed else ""))


def _kinds(value: object) -> tuple[type, ...]:
    return (int, float) if type(value) in (int, float) else (type(value),)


def decode_params(
    wire: Common, defaults: DecodeParams, *, max_new_tokens: int, param: str, stop_ids: tuple[int, ...] | None = None
) -> DecodeParams:
    """How to decode what a request asks for; what it leaves out is as the server was started.

    Args:
        max_new_tokens: longest answer.
        param: the request's own name for it.
        stop_ids: instead of the model's, unless the request names others; None: the model's.
    Raises:
        ApiError: a value that `DecodeParams` refuses, under the name that the request has for it.
    """
    extension = dict(wire.diffusion or {})
    for name in extension:
        if name not in EXTENSIONS:
            hint = did_you_mean(name[:80], list(EXTENSIONS))
            raise bad_request(f"unknown field {name[:80]!r} of `diffusion`{hint}", param=f"diffusion.{name[:80]}")
    changes: dict[str, Any] = {**_as_fields(extension), "max_new_tokens": max_new_tokens, **_sampling(wire, defaults)}
    if wire.ignore_eos:
        changes["stop_ids"] = ()
    elif stop_ids is not None:
        changes.setdefault("stop_ids", stop_ids)
    if wire.logit_bias:
        changes["logit_bias"] = _biases(wire.logit_bias)
    try:
        return defaults.replace(**changes)
    except ParameterError as error:
        raise renamed(error, extension, param) from None


def renamed(error: ParameterError, extension: dict[str, Any] | None, param: str) -> ParameterError:
    """The error under the name that the request has for the parameter."""
    name = error.param or ""
    if name == "max_new_tokens":
        return ParameterError(str(error).replace("max_new_tokens", param), param=param)
    return ParameterError(str(error), param=f"diffusion.{name}" if name in (extension or {}) else name)


def _sampling(wire: Common, defaults: DecodeParams) -> dict[str, Any]:
    """Temperature and what goes with it; a nucleus of everything is none, and at temperature 0 none matters."""
    temperature = defaults.temperature if wire.temperature is None else wire.temperature
    changes: dict[str, Any] = {"temperature": temperature}
    if wire.top_p is not None:
        changes["top_p"] = None if wire.top_p == 1 else wire.top_p
    if wire.top_k is not None:
        changes["top_k"] = None if wire.top_k == -1 else wire.top_k
    DecodeParams.of(**changes)  # in range, whether it matters or not
    if wire.temperature == 0:
        changes |= {"top_p": None, "top_k": None}
    if wire.seed is not None:
        changes["seed"] = wire.seed
    elif temperature > 0:
        changes["seed"] = secrets.randbelow(2**63)
    return changes


def _biases(given: dict[str, float]) -> dict[int, float]:
    if len(given) > MAX_BIASES:
        raise bad_request(f"`logit_bias` takes at most {MAX_BIASES} tokens, got {len(given)}", param="logit_bias")
    try:
        return {int(token): value for token, value in given.items()}
    except ValueError:
        raise bad_request("`logit_bias` maps token ids, written as texts, to numbers", param="logit_bias") from None


def _as_fields(extension: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples, and the keys of its objects are texts."""
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in extension.items()}
    forced = fields.get("forced")
    if isinstance(forced, dict):
        try:
            fields["forced"] = {int(offset): token for offset, token in forced.items()}
        except ValueError:
            message = "`diffusion.forced` maps answer offsets, written as texts, to token ids"
            raise bad_request(message, param="diffusion.forced") from None
    return fields
