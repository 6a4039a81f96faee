"""What a chat says of tools and reasoning, settled with what the model can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyorder.channels.parser import Channels
from anyorder.channels.prompted import with_tools
from anyorder.errors import ParameterError
from anyorder.models.chat import TemplateInputs, check_variables
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES
from anyorder.server.backend import Backend
from anyorder.server.effort import EFFORTS, Effort, preset
from anyorder.server.errors import bad_request, unsupported
from anyorder.server.wire.chat import ChatRequest
from anyorder.server.wire.messages import image_params, template_messages
from anyorder.server.wire.tools import Tool
from anyorder.thinking import opens_reasoning


@dataclass(frozen=True)
class Talk:
    """A chat ready to be rendered, and how its answer is to be read."""

    messages: list[dict[str, Any]]
    inputs: TemplateInputs | None
    """None: the template gets messages only."""
    channels: Callable[[], Channels] | None
    preset: Callable[[DecodeParams], dict[str, float]]
    """Decode parameters of the effort that was asked for."""


def prepare(backend: Backend, wire: ChatRequest) -> Talk:
    """Everything that a chat's messages, tools and reasoning come to.

    Raises:
        ApiError, ParameterError: the model cannot do it.
    """
    syntax = backend.syntax
    tools = wire.callable_tools()
    _check_images(backend, wire)
    messages = template_messages(wire.messages)
    _check_tools(backend, tools, messages)
    variables = _variables(backend, wire)
    shown = [{"type": "function", "function": tool.function.shown()} for tool in tools]
    if syntax.prompted and (tools or any("tool_calls" in said or said["role"] == "tool" for said in messages)):
        messages, shown = with_tools(messages, shown), []
    inputs = TemplateInputs(tools=tuple(shown), variables=variables) if shown or variables else None
    names = frozenset(tool.function.name for tool in tools)
    channels = None
    if syntax.reasoning is not None or names:
        single, way = wire.parallel_tool_calls is False, syntax.reasoning
        told = TemplateInputs(variables=variables)
        thinking = way is not None and opens_reasoning(backend.tokenizer, way, told)
        channels = partial(Channels, backend.read_syntax, thinking=thinking, tools=names, single=single)
    return Talk(messages, inputs, channels, partial(_preset, backend, wire))


def _check_images(backend: Backend, wire: ChatRequest) -> None:
    """Refuse images where the model reads none, where they are too many, and what is not told of them."""
    images, most = image_params(wire.messages), backend.settings.max_images
    if not images:
        return
    spec = backend.model.spec
    if backend.model.images is None:
        lacks = "takes no image input" if spec.image_shapes is None else "is served without its vision tower"
        message = f"`{images[0]}`: {backend.name} (family {spec.name}) {lacks}; send text"
        raise bad_request(message, param=images[0], code="unsupported_by_model")
    if len(images) > most:
        message = f"{len(images)} images are sent; this server reads at most {most} of a request"
        raise bad_request(message, param=images[most], code="too_many_images")
    if wire.seams:
        raise unsupported("seams", "`seams` are told of text, and this chat has images; drop one")
    if wire.score_mode is not None:
        told = "`logprobs_mode`: a text with images cannot be scored; use 'commit_pass' or leave the images out"
        raise unsupported("logprobs_mode", told)


def _check_tools(backend: Backend, tools: list[Tool], messages: list[dict[str, Any]]) -> None:
    """Refuse tools, calls and results where the model has no way to write or read them."""
    if backend.syntax.tools is not None:
        return
    told = f"{backend.model.spec.title}: how this model calls tools is not known; if you know, set `--tool-parser`"
    if tools:
        raise unsupported("tools", f"`tools`: {told}")
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            raise unsupported(f"messages[{number}].role", f"role 'tool': {told}")
        if "tool_calls" in message:
            raise unsupported(f"messages[{number}].tool_calls", f"tool calls in messages: {told}")


def _variables(backend: Backend, wire: ChatRequest) -> dict[str, Any]:
    """Variables for the template: those of the request, and the switch that its effort sets."""
    variables = dict(wire.chat_template_kwargs or {})
    try:
        check_variables(backend.tokenizer.chat_template or "", variables, {})
    except ParameterError as error:
        param = "chat_template_kwargs"
        raise ParameterError(f"`chat_template_kwargs`: {error}", param=param) from None
    if wire.reasoning_effort is None:
        return variables
    thinks, way = EFFORTS[wire.reasoning_effort].thinks, backend.syntax.reasoning
    if way is None:
        if thinks:
            message = "`reasoning_effort`: the served model has no reasoning channel; leave it out or use 'none'"
            raise unsupported("reasoning_effort", message)
        return variables
    if variables.get(way.switch, thinks) is not thinks:
        message = f"`reasoning_effort` and `chat_template_kwargs.{way.switch}` contradict each other; drop one"
        raise ParameterError(message, param="reasoning_effort")
    try:
        check_variables(backend.tokenizer.chat_template or "", {way.switch: thinks}, {})
    except ParameterError:
        if thinks:
            return variables  # it always reasons
        message = "`reasoning_effort`: the served model always reasons; leave it out or use 'low' to 'max'"
        raise unsupported("reasoning_effort", message) from None
    return {**variables, way.switch: thinks}


def _preset(backend: Backend, wire: ChatRequest, params: DecodeParams) -> dict[str, float]:
    if wire.reasoning_effort is None or backend.syntax.reasoning is None:
        return {}
    spec = backend.model.spec
    reads = _mode(backend, params) != "causal" and "threshold" in POLICIES[params.policy or spec.policy].reads
    return preset(EFFORTS[wire.reasoning_effort], params, reads_threshold=reads)


def thinking_budget(backend: Backend, wire: ChatRequest, params: DecodeParams) -> int | None:
    """Most tokens of reasoning: what the request says, else the share of the longest answer that its effort allows.

    Raises:
        ApiError: there is no reasoning to bound, or other parameters do not go with it.
    """
    effort = None if wire.reasoning_effort is None else EFFORTS[wire.reasoning_effort]
    shared = params.steps is not None and _mode(backend, params) == "full"
    if wire.thinking_budget is None:
        share = None if effort is None or backend.syntax.reasoning is None or shared else effort.share
        budget = None if share is None else int(share * params.max_new_tokens)
    else:
        _check_budget(backend, effort, shared=shared)
        budget = wire.thinking_budget
    if budget is not None and wire.seams:
        message = "`seams` are told of answers in one piece, and a budget for reasoning may cut one in two; drop one"
        raise bad_request(message, param="seams")
    return budget


def _check_budget(backend: Backend, effort: Effort | None, *, shared: bool) -> None:
    name = "thinking_budget"
    if backend.syntax.reasoning is None:
        raise unsupported(name, f"`{name}`: the served model has no reasoning channel; leave it out")
    if effort is not None and not effort.thinks:
        raise bad_request(f"`{name}` and a `reasoning_effort` without reasoning contradict each other", param=name)
    if shared:
        raise bad_request(f"`{name}` and `steps`, which are shared over a whole answer, do not go together", param=name)


def _mode(backend: Backend, params: DecodeParams) -> str:
    return backend.model.spec.decoder if params.mode == "auto" else params.mode
