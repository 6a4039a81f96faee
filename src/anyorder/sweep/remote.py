"""A model behind an endpoint, ours or another's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyorder.bench.client import usage_figures
from anyorder.errors import ParameterError
from anyorder.sweep.answer import Answer
from anyorder.sweep.endpoint import Endpoint, Reply
from anyorder.sweep.items import Item
from anyorder.sweep.settings import Setting

PLAIN = {"max_new_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k",
         "logit_bias": "logit_bias"}  # fmt: skip
"""Decode parameters that have a name of their own in a request; all others go into our object `diffusion`."""


class RemoteSubject:
    """Settings become requests: usual parameters under their usual names, those of decoding in `diffusion`, and the
    setting's `request` as it is."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.model

    def identity(self) -> dict[str, Any]:
        """Where it is and what it is called; what it runs on is not known."""
        target = self.endpoint.target
        return {"endpoint": target.url, "model": self.endpoint.model, "surface": target.surface}

    def check(self, item: Item, setting: Setting) -> None:
        """Refuse prompts that are neither a text nor a chat."""
        if isinstance(item.prompt, str) or all(isinstance(part, Mapping) for part in item.prompt):
            if self.endpoint.target.surface == "chat" or isinstance(item.prompt, str):
                return
            raise ParameterError("the prompt is a chat; use --surface chat", param="surface")
        raise ParameterError("the prompt has holes or token ids, which a model here can take; load it with --model")

    def answer(self, item: Item, setting: Setting, sample: int) -> Answer:
        """Ask until there is an answer.

        Raises:
            Failed: there is none.
            ParameterError: the endpoint does not say that it knows `diffusion`, so that it may well ignore it.
        """
        body = request(item, setting, sample, surface=self.endpoint.target.surface)
        reply = self.endpoint.ask(body)
        figures = usage_figures(reply.usage)
        if "diffusion" in body and figures["passes"] is None:
            names = ", ".join(body["diffusion"])
            raise ParameterError(
                f"the endpoint does not report `usage.diffusion`, so it cannot be known whether it honours {names}; "
                "sweep what it does know, in the `request` of a [[setting]]"
            )
        return _answer(reply, figures)


def _answer(reply: Reply, figures: Mapping[str, Any]) -> Answer:
    passes, rate = figures["passes"], figures["tokens_per_forward"]
    committed = round(rate * passes) if passes and rate is not None else figures["tokens"]
    return Answer(
        text=reply.text,
        tokens=committed,
        passes=passes,
        first_s=reply.first_s,
        last_s=reply.last_s,
        memory_bytes=None,
        retries=reply.retries,
    )


def request(item: Item, setting: Setting, sample: int, *, surface: str) -> dict[str, Any]:
    """The body of a request, without model and stream. The seed is the setting's and the sample's number together."""
    params = {name: value for name, value in setting.params.items() if value is not None}
    seed = params.pop("seed", 0) + sample
    usual = {PLAIN[name]: params.pop(name) for name in PLAIN if name in params}
    prompt = {"prompt": item.prompt} if surface == "completions" else {"messages": _messages(item)}
    drawn = {"seed": seed} if usual.get("temperature") else {}
    diffusion = {"diffusion": params} if params else {}
    return {**prompt, "temperature": 0, **usual, **drawn, **diffusion, **setting.request}


def _messages(item: Item) -> Any:
    return [{"role": "user", "content": item.prompt}] if isinstance(item.prompt, str) else list(item.prompt)
