"""How models write reasoning and tool calls: one record per way, and which model uses which."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from anyorder.channels import gemma4, hermes
from anyorder.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class ReasoningSyntax:
    """Reasoning stands between two markers, before the answer."""

    open: str
    close: str
    lead: str = ""
    """Blanks in front of the closing marker, as the model was trained to write them."""
    gap: str = ""
    """Blanks behind it."""
    switch: str = "enable_thinking"
    """Variable of chat templates that turns it on and off."""


@dataclass(frozen=True, kw_only=True)
class ToolSyntax:
    """A call, or several, stands between two markers."""

    open: str
    close: str
    read: Callable[..., list[tuple[str, dict[str, Any]]] | None]
    """What stands between the markers, and `words` -> (name, arguments) of every call; None if it is no call."""
    quoted: Callable[..., bool]
    """Does this beginning of a call, read with `words`, end inside a string? Then a closing marker there is a part of
    the string."""
    words: tuple[str, ...] = ()
    """Further control tokens that the text of a call needs."""


REASONING: Mapping[str, ReasoningSyntax] = {
    "think": ReasoningSyntax(open="<think>", close="</think>", lead="\n", gap="\n\n"),
    "gemma4": ReasoningSyntax(open="<|channel>thought\n", close="<channel|>"),
}
"""Sources: chat templates of Qwen3, SDAR, LLaDA2; of DiffusionGemma and Gemma 4."""

TOOLS: Mapping[str, ToolSyntax] = {
    "hermes": ToolSyntax(
        open="<tool_call>", close="</tool_call>", read=hermes.read, quoted=hermes.quoted
    ),
    "gemma4": ToolSyntax(
        open="<|tool_call>", close="<tool_call|>", read=gemma4.read, quoted=gemma4.quoted, words=(gemma4.QUOTE,)
    ),
}  # fmt: skip
"""Sources: chat templates of Qwen2.5, Qwen3 and SmolLM2's model card; chat template of Gemma 4."""

UNTRAINED = ("llada", "dream")
"""Families that were not trained to call tools, whatever their chat template says."""
PROMPTED = ("llama", "qwen2", "qwen3")
"""Families that are told about tools in a system message, in the syntax hermes, if their template cannot."""
FOREIGN = ("<function=",)
"""Signs of tool syntaxes that share markers with one above and are not read here (Qwen3-Coder)."""


@dataclass(frozen=True, kw_only=True)
class Syntax:
    """How the served model writes; None where it has no such channel."""

    reasoning: ReasoningSyntax | None = None
    tools: ToolSyntax | None = None
    prompted: bool = False
    """The chat template does not know of tools, and a system message tells of them."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Texts that may be control tokens and have to be seen in an answer."""
        found: list[str] = []
        for channel in (self.reasoning, self.tools):
            if channel is not None:
                found += [channel.open, channel.open.partition(">")[0] + ">", channel.close]
        return (*found, *(self.tools.words if self.tools else ()))


def syntax_of(family: str, template: str | None, *, reasoning: str = "auto", tools: str = "auto") -> Syntax:
    """How a model writes.

    Args:
        family: name of its `FamilySpec`.
        template: its chat template.
        reasoning: a key of `REASONING`, "none", or "auto": what the template shows.
        tools: a key of `TOOLS`, "none", or "auto": what the template shows, else hermes for the families in `PROMPTED`.
    Raises:
        ModelError: the template cannot tell of tools, and no message could do so in the syntax that is named.
    """
    template = template or ""
    chosen = _tools(family, template) if tools == "auto" else tools
    if chosen not in ("hermes", "none") and not _reads_tools(template):
        raise ModelError(f"`tool_parser` {chosen!r} needs a chat template that tells of tools; use 'hermes' or 'none'")
    return Syntax(
        reasoning=REASONING.get(_reasoning(template) if reasoning == "auto" else reasoning),
        tools=TOOLS.get(chosen),
        prompted=not _reads_tools(template),
    )


def _reasoning(template: str) -> str:
    return next((name for name, way in REASONING.items() if way.close in template), "none")


def _tools(family: str, template: str) -> str:
    if family in UNTRAINED or any(sign in template for sign in FOREIGN):
        return "none"
    if _reads_tools(template):
        return next((name for name, way in TOOLS.items() if way.open in template), "none")
    return "hermes" if template and family in PROMPTED else "none"


def _reads_tools(template: str) -> bool:
    return re.search(r"\{[{%][^}]*\btools\b", template) is not None
