"""What every endpoint works with: the service, its model, and how requests become answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread

from anyorder.canvas import Part, count_holes, count_slots
from anyorder.channels.budget import Allowance, Budget
from anyorder.channels.marked import with_tokens
from anyorder.channels.parser import Channels
from anyorder.channels.syntax import Syntax, syntax_of
from anyorder.errors import ModelError, ParameterError
from anyorder.events import Finished
from anyorder.params import DecodeParams
from anyorder.prompt import Prompt, encode_prompt, is_chat
from anyorder.scoring import ScoreFold, ScoreParams, resolve_scoring
from anyorder.seams import check_seams
from anyorder.server.choice import Choice
from anyorder.server.errors import ApiError
from anyorder.server.gap import FimTokens, fim_tokens
from anyorder.server.limiter import Lease
from anyorder.server.metrics import ServerMetrics
from anyorder.server.realtime import with_early_text
from anyorder.server.settings import ServerSettings
from anyorder.server.streams.answer import Answer
from anyorder.serving import AnyWork, Priority, ScoreWork, SeamWork, Service, Ticket, Work
from anyorder.thinking import decode_marked, marker_tokens

if TYPE_CHECKING:
    from anyorder.models.chat import TemplateInputs
    from anyorder.models.loaded import LoadedModel
    from anyorder.models.tokenizer import Tokenizer
    from anyorder.server.tracing import Traces

IMAGE_READERS = 2
"""Prompts whose images are decoded at the same time: a large image takes memory and a core."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What one request wants of the engine: some prompts, each answered `n` times."""

    prompts: Sequence[Sequence[Part]]
    params: DecodeParams
    n: int = 1
    stops: Sequence[str] = ()
    with_tokens: bool = False
    channels: Callable[[], Channels] | None = None
    """Makes the reader of an answer's channels; None: all of its text is content."""
    thinking: int | None = None
    """Most tokens of reasoning; None: as many as it likes."""
    realtime: bool = False
    seams: bool = False
    """Say of every answer what its passes lost."""
    tag: str = ""
    key: Lease | None = None
    """The claim of the client's key: what it may use, and what keeps its prompts apart from those of others."""

    @property
    def tokens(self) -> int:
        """Prompts and the longest answers: what the client must be allowed to have."""
        holes = sum(map(count_holes, self.prompts))
        prompts = sum(map(count_slots, self.prompts)) - holes
        return prompts + self.n * (holes + len(self.prompts) * self.params.max_new_tokens)


@dataclass(frozen=True)
class Backend:
    """A service with what the HTTP side needs to know of it."""

    service: Service
    settings: ServerSettings
    defaults: DecodeParams = field(default_factory=DecodeParams)
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    traces: Traces | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def model(self) -> LoadedModel:
        return self.service.model

    @property
    def name(self) -> str:
        """The model's name on the wire."""
        source = self.model.source
        return self.settings.name or (Path(source).name if Path(source).exists() else source)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer.

        Raises:
            ModelError: it has none.
        """
        if self.model.tokenizer is None:
            raise ModelError(f"{self.model.source} has no tokenizer, and a server speaks text; use anyorder generate")
        return self.model.tokenizer

    @cached_property
    def image_readers(self) -> CapacityLimiter:
        """Threads that may decode images."""
        return CapacityLimiter(IMAGE_READERS)

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Tokens of single bytes, for characters that the vocabulary lacks."""
        found = (self.tokenizer.token_id(f"<0x{byte:02X}>") for byte in range(256))
        return frozenset(token for token in found if token is not None)

    @cached_property
    def fim(self) -> FimTokens | None:
        """The control tokens with which the model fills gaps; None: it uses none.

        Raises:
            ModelError: it should, and has none.
        """
        return fim_tokens(self.tokenizer) if self.settings.fim_tokens else None

    @cached_property
    def syntax(self) -> Syntax:
        """How the model writes reasoning and tool calls."""
        settings = self.settings
        return syntax_of(
            self.model.spec.name,
            self.tokenizer.chat_template,
            reasoning=settings.reasoning_parser,
            tools=settings.tool_parser,
        )

    @cached_property
    def markers(self) -> Mapping[int, str]:
        """Control tokens that mark channels: id -> string."""
        return marker_tokens(self.tokenizer, self.syntax)

    @cached_property
    def read_syntax(self) -> Syntax:
        """`syntax` as `decode_marked` shows it in answers."""
        return with_tokens(self.syntax, self.markers.values())

    def decode(self, ids: Sequence[int]) -> str:
        """Ids to text."""
        return self.tokenizer.decode(list(ids))

    def decode_marked(self, ids: Sequence[int]) -> str:
        """Ids to text for a reader of channels."""
        return decode_marked(self.tokenizer, ids, self.markers)

    def spell(self, id: int) -> str:
        """A token by itself: its text, or what the vocabulary calls it where it has none."""
        return self.decode([id]) or self.tokenizer.token(id) or ""

    def check_model(self, name: str) -> None:
        """Refuse a request for another model."""
        if name != self.name:
            message = f"there is no model {name[:200]!r} here; this server has {self.name!r}"
            raise ApiError(404, message, param="model", code="model_not_found")

    def check_choices(self, count: int, param: str = "n") -> None:
        """Refuse a request for too many answers."""
        if count > self.settings.max_choices:
            message = f"{count} answers are wanted at once; this server gives at most {self.settings.max_choices}"
            raise ApiError(400, message, param=param, code="too_many_choices")

    async def encode(self, prompt: Prompt, param: str, inputs: TemplateInputs | None = None) -> list[Part]:
        """A prompt as ids, holes and pictures, made in a thread: long texts and images take their time.

        Args:
            param: the prompt's name in the request.
            inputs: for the chat template, checked before.
        """
        limiter = self.image_readers if _has_images(prompt) else None
        try:
            return await to_thread.run_sync(partial(encode_prompt, self.model, prompt, inputs), limiter=limiter)
        except ParameterError as error:
            within = (error.param or "").startswith(f"{param}[")
            raise ParameterError(str(error), param=error.param if within else param) from None

    async def submit(self, ask: Ask) -> list[Choice]:
        """Hand everything to the engine, or nothing.

        Raises:
            LimitExceeded: the client may not have that many tokens now.
            ParameterError: seams are wanted of what has none, or the engine refuses the request.
        """
        if ask.realtime:
            ask = replace(ask, params=with_early_text(ask.params, self.model.spec.decoder))
        if ask.seams:
            check_seams(self.model, ask.params)
        if ask.key is not None:
            ask.key.reserve(ask.tokens)
        choices: list[Choice] = []
        try:
            for number, prompt in enumerate(ask.prompts):
                for sample in range(ask.n):
                    choices.append(await self._choice(ask, number, prompt, sample, index=len(choices)))
        except BaseException:
            for choice in choices:
                choice.ticket.cancel()
            raise
        return choices

    async def _choice(self, ask: Ask, number: int, prompt: Sequence[Part], sample: int, *, index: int) -> Choice:
        work = Work(prompt=prompt, params=ask.params, sample=sample, **self._terms(ask))
        ticket = await self._submitted(work)
        hole = count_holes(prompt)
        stop_ids = self.model.stop_ids if ask.params.stop_ids is None else ask.params.stop_ids
        channels = ask.channels() if ask.channels else None
        allowance = None
        if channels is not None and ask.thinking is not None:
            allowance = Allowance(Budget(ask.thinking, ask.params.max_new_tokens, self._closing), channels)
        answer = Answer(
            self.decode_marked if channels else self.decode,
            stop_ids,
            ask.stops,
            hole=hole > 0,
            byte_ids=self.byte_ids,
            with_tokens=ask.with_tokens,
            spell=self.spell,
            channels=channels,
            allowance=allowance,
        )
        resume = partial(self._resume, ask, sample) if allowance is not None else None
        seams = partial(self._seams, ask) if ask.seams else None
        return Choice(
            index=index, prompt=number, ticket=ticket, answer=answer, hole_length=hole, seams=seams, resume=resume
        )

    def _closing(self, held: int) -> list[int]:
        """Token ids that close the reasoning of an answer, of whose last marker `held` characters are there."""
        way, tokenizer = self.syntax.reasoning, self.tokenizer
        assert way is not None, "there is a budget only where there is reasoning"
        marker = tokenizer.token_id(way.close)
        if held or marker is None:
            return tokenizer.encode_text(("" if held else way.lead) + way.close[held:] + way.gap)
        lead, gap = (tokenizer.encode_text(text) if text else [] for text in (way.lead, way.gap))
        return [*lead, marker, *gap]

    async def _resume(self, ask: Ask, sample: int, choice: Choice) -> Ticket:
        """Hand in what is known of an answer as the prompt of the rest."""
        params, terms = ask.params, self._terms(ask)
        written = (choice.answer.onward or [])[choice.answer.fold.answer_start :]
        prompt, known = [*ask.prompts[choice.prompt], *written], len(written)  # pictures are more than their ids
        forced = {offset - known: token for offset, token in params.forced.items() if offset >= known}
        params = params.replace(max_new_tokens=params.max_new_tokens - known, forced=forced)
        if terms["deadline_s"] is not None:
            left = choice.asked_at + terms["deadline_s"] - time.monotonic()
            terms["deadline_s"] = max(left, 0.001)  # the engine says that it is too late
        return await self._submitted(Work(prompt=prompt, params=params, sample=sample, continues=True, **terms))

    async def _seams(self, ask: Ask, choice: Choice) -> Ticket:
        """Hand a finished answer to the engine once more; one that a stop string ended gets its end here."""
        events = choice.events
        if not isinstance(events[-1], Finished):
            events = [*events, Finished(events[0].request, "stop", choice.computed.passes, choice.computed.positions)]
        return await self._submitted(SeamWork(events=events, params=ask.params, **self._terms(ask)))

    async def score(self, ask: Ask, ids: Sequence[int], params: ScoreParams, *, prompt: int, index: int) -> Choice:
        """Hand a text to the engine to be scored, on the terms of a request."""
        ticket = await self._submitted(ScoreWork(ids=ids, params=params, **self._terms(ask)))
        scores = ScoreFold(self.decode, resolve_scoring(params, self.model)[0])
        return Choice(index=index, prompt=prompt, ticket=ticket, answer=Answer(self.decode, ()), scores=scores)

    async def _submitted(self, work: AnyWork) -> Ticket:
        """The ticket of a work; whoever stops waiting for it has cancelled it, too."""
        made: list[Ticket] = []
        try:
            await to_thread.run_sync(lambda: made.append(self.service.submit(work)))
        except BaseException:
            for ticket in made:
                ticket.cancel()
            raise
        return made[0]

    def _terms(self, ask: Ask) -> dict[str, Any]:
        return {
            "priority": _priority(ask),
            "deadline_s": self.settings.request_timeout_s,
            "tag": ask.tag,
            "salt": ask.key.salt if ask.key else "",
        }

    def longest_answer(self, prompt: Sequence[Part]) -> int:
        """Tokens of an answer when the request does not say: the server's default, or what the context leaves."""
        room = self.model.config.max_context - count_slots(prompt)
        return max(min(self.defaults.max_new_tokens, room), 1)


def _has_images(prompt: Prompt) -> bool:
    return is_chat(prompt) and any(isinstance(m, Mapping) and isinstance(m.get("content"), list) for m in prompt)


def _priority(ask: Ask) -> Priority:
    return "realtime" if ask.realtime else "normal"
