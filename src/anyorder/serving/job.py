"""A work with everything that the scheduler knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyorder.canvas import count_holes, known_keys
from anyorder.decoders.base import Decoder
from anyorder.engine.prefill import Prefill
from anyorder.engine.sequence import Sequence as RunningSequence
from anyorder.params import DecodeParams
from anyorder.prompt import encode_prompt
from anyorder.request.decoder import build_decoder
from anyorder.request.needs import exact_prefix, stored_columns, widest_pass
from anyorder.resolve import resolve
from anyorder.serving.pool import Lease
from anyorder.serving.ticket import Ticket
from anyorder.serving.work import AnyWork, Work
from anyorder.window import Attention

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


@dataclass(eq=False, kw_only=True)
class Job:
    """One request from the queue to its end."""

    number: int
    work: AnyWork
    params: DecodeParams
    decoder: Decoder
    ticket: Ticket
    columns: int
    """Columns of keys and values that it comes to need."""
    pass_tokens: int
    """Tokens that one of its passes feeds at most, its prompt apart."""
    prefix: tuple[Attention, int] | None
    """See `request.exact_prefix`."""
    keys: list[int]
    """What the prompt up to its first hole depends on: ids, and numbers that stand for what is in pictures."""
    submitted_at: float
    due: float
    """When its turn is, were nobody else there: the queue's order."""
    turn: int = 0
    """The round of the queue in which it goes; see `FairQueue`."""
    expires_at: float | None
    sequence: RunningSequence | None = None
    lease: Lease | None = None
    kept: bool = False
    """Its prompt is computed, and kept if there is room."""
    evicted: bool = False
    """Its memory was lent to a more urgent one, at least once."""
    leader: Job | None = None
    """Computes most of the same prompt, so this one waits for it."""

    @property
    def known_keys(self) -> list[int]:
        """The prompt up to its first hole; after an eviction all that was stored, and one more."""
        reread = self.sequence.prefill if self.sequence else None
        return self.decoder.canvas.keys(reread.columns + 1) if reread and reread.whole else self.keys

    def prefill(self, most: int) -> Prefill | None:
        """Chunks of at most `most` columns, or of one block; None where finished columns are not exact, and for a text
        to be scored, which is read in chunks anyhow."""
        if self.prefix is None or not isinstance(self.work, Work):
            return None
        attention, block_length = self.prefix
        block_length = max(block_length, self.params.block_length or 1)
        chunk = max(block_length, most // block_length * block_length)
        return Prefill(
            attention=attention,
            block_length=self.prefix[1],
            chunk=chunk,
            columns=len(self.keys),
            pictures=self.decoder.canvas.pictures,
        )


def make_job(model: LoadedModel, work: Work, *, number: int, together: int, now: float, patience: float) -> Job:
    """Check a work against the model and prepare its decoder.

    Args:
        together: requests that are there, this one included.
    Raises:
        ParameterError, ContextError, ModelError: the work cannot be done.
    """
    prompt = encode_prompt(model, work.prompt)
    holes = count_holes(prompt)
    params = resolve(work.params, model, holes=holes, batch=together)
    decoder = build_decoder(params, model, prompt, request=number, sample=work.sample)
    length = decoder.canvas.answer_start
    return Job(
        number=number,
        work=work,
        params=params,
        decoder=decoder,
        ticket=Ticket(tag=work.tag, params=params, prompt_tokens=length),
        columns=stored_columns(params, decoder.end),
        pass_tokens=widest_pass(params, decoder.end, holes=holes),
        prefix=exact_prefix(params, model),
        keys=known_keys(prompt),
        submitted_at=now,
        due=now + patience,
        expires_at=None if work.deadline_s is None else now + work.deadline_s,
    )
