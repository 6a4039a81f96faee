"""A conversation that keeps its keys and values from turn to turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anyorder.api import EventStream, encoded_prompts
from anyorder.cache.storage import KVStorage
from anyorder.canvas import Part, known_keys
from anyorder.errors import ParameterError
from anyorder.events import Event
from anyorder.params import DecodeParams

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel
    from anyorder.thinking import Reader


class ChatSession:
    """Messages so far and the stored columns behind them.

    What an exact cache stored for earlier turns is read again as far as the new prompt begins with the same ids; a
    model without an exact cache computes the whole conversation anew.

    Attributes:
        messages: the conversation, `{"role", "content"}` each; reasoning of an answer is its `reasoning_content`, of
            which the chat template decides whether later turns are shown it.

    Args:
        system: text of a system message; None leaves it to the template.
        thinking: whether the model reasons before it answers; None leaves it to the template. May be set between turns.
    """

    def __init__(
        self,
        model: LoadedModel,
        params: DecodeParams | None = None,
        *,
        system: str | None = None,
        thinking: bool | None = None,
        **changes: Any,
    ) -> None:
        self.model = model
        self.params = DecodeParams.of(params, **changes)
        self.system = system
        self.thinking = thinking
        self.reset()

    def reset(self) -> None:
        """Forget the conversation."""
        self.messages: list[dict[str, Any]] = []
        if self.system is not None:
            self.messages.append({"role": "system", "content": self.system})
        self.storage: KVStorage | None = None
        self.stored_keys: list[int] = []  # of the columns whose keys and values are in storage
        self.turn: Turn | None = None  # the one that may write to storage

    def send(self, content: str | Sequence[Mapping[str, Any]]) -> Turn:
        """Ask the next question: text, or a list of text and image parts.

        The answer becomes part of `messages` when the returned stream is exhausted; one that is given up midway is not
        kept, and neither is its question. The next `send` or `reset` gives it up for good.
        """
        messages = [*self.messages, {"role": "user", "content": content}]
        (prompt,), (reader,) = encoded_prompts(self.model, [messages], self.thinking)
        self.turn = Turn(self, messages, prompt, reader)
        return self.turn

    def reusable(self, prompt: Sequence[Part]) -> int:
        """Leading columns of `prompt` that are stored; the last column is always computed, its logits are needed."""
        keys = known_keys(prompt)
        limit = min(len(self.stored_keys), len(keys) - 1)
        return next((i for i in range(limit) if self.stored_keys[i] != keys[i]), limit)


class Turn(EventStream):
    """The event stream of one answer; the session takes it over when it is exhausted."""

    def __init__(
        self, session: ChatSession, messages: list[dict[str, Any]], prompt: Sequence[Part], reader: Reader | None
    ) -> None:
        self.session = session
        self.asked = messages
        self.kept = False
        cached = session.reusable(prompt)
        # an abandoned turn leaves columns behind the reusable ones overwritten
        session.stored_keys = session.stored_keys[:cached]
        super().__init__(
            session.model, [prompt], session.params, readers=[reader], storage=session.storage, cached=cached
        )

    def __next__(self) -> Event:
        if not self.kept and self.session.turn is not self:
            raise ParameterError("the session has moved on and this answer was given up; send its question again")
        try:
            return super().__next__()
        except StopIteration:
            if not self.kept:
                self._keep()
            raise

    def _keep(self) -> None:
        self.kept = True
        sequence, session = self.engine.sequences[0], self.session
        answer = self.generation(0)
        reasoning = {"reasoning_content": answer.reasoning} if answer.reasoning else {}
        session.messages = [*self.asked, {"role": "assistant", "content": answer.text, **reasoning}]
        stored = sequence.decoder.stored if self.params[0].cache != "none" and self.exact else 0
        session.storage = sequence.storage
        session.stored_keys = sequence.decoder.canvas.keys(stored)

    @property
    def exact(self) -> bool:
        """True if stored columns are those of an uncached pass."""
        return self.params[0].mode != "full"
