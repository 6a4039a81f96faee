"""Log-likelihoods of continuations and of whole texts, as evaluation harnesses ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anyorder.api import generate, score
from anyorder.errors import ParameterError
from anyorder.scoring import ScoreMode

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel
    from anyorder.models.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Likelihoods:
    """A model with a way of scoring.

    Attributes:
        mode: causal, left_to_right (exact block by block where the model is a block model), pseudo_likelihood or
            monte_carlo; None: causal where the weights have such a mode, else monte_carlo.
        samples: random maskings of a text, of monte_carlo.
        seed: of these.
    """

    model: LoadedModel
    mode: ScoreMode | None = None
    samples: int = 128
    seed: int = 0

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's.

        Raises:
            ParameterError: it has none.
        """
        if self.model.tokenizer is None:
            raise ParameterError(f"{self.model.source} has no tokenizer, and tasks are text", param="source")
        return self.model.tokenizer

    @property
    def prefix(self) -> int:
        """What stands before a text that nothing stands before: the beginning-of-text token, or that of its end."""
        named = self.tokenizer.bos or self.tokenizer.eos
        found = None if named is None else self.tokenizer.token_id(named)
        if found is None:
            raise ParameterError(f"{self.model.source} names no token to begin a text with", param="source")
        return found

    def split(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Ids of both, as the tokenizer cuts them when they stand together; blanks at the seam go to the second.

        A context that is empty becomes the prefix.
        """
        blanks = len(context) - len(context.rstrip())
        context, continuation = context[: len(context) - blanks], context[len(context) - blanks :] + continuation
        whole = self.tokenizer.encode_text(context + continuation, bos=True)
        before = self.tokenizer.encode_text(context, bos=True)
        cut = len(before) if whole[: len(before)] == before else _common(whole, before)
        return (whole[:cut], whole[cut:]) if cut else ([self.prefix], whole)

    def of(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[float, bool]:
        """Nats of a continuation, and whether the model would have written it by itself, token by token.

        Texts that are too long lose their beginning.
        """
        kept = [*context, *continuation][-self.model.config.max_context :]
        start = len(kept) - len(continuation)
        if start < 1:
            raise ParameterError(
                f"a continuation of {len(continuation)} tokens leaves no room for anything before it in a context of "
                f"{self.model.config.max_context}",
                param="max_length",
            )
        if self._draws:
            scores = score(self.model, kept, mode="monte_carlo", start=start, samples=self.samples, seed=self.seed)
            return scores.total, self._writes(kept, start)
        scores = score(self.model, kept, mode=self.mode, start=start, top_logprobs=1)
        greedy = all(token.alternatives[0].id == token.id for token in scores.tokens[start:])
        return scores.total, greedy

    @property
    def _draws(self) -> bool:
        causal = "causal" in self.model.spec.modes
        return self.mode == "monte_carlo" or (self.mode is None and not causal)

    def _writes(self, ids: Sequence[int], start: int) -> bool:
        count = len(ids) - start
        how: dict[str, Any] = {"stop_ids": (), "temperature": 0.0}
        written = generate(self.model, list(ids[:start]), max_new_tokens=count, **how)
        return list(written.ids) == list(ids[start:])

    def rolling(self, text: str) -> float:
        """Nats of a whole text; a long one in pieces, each with as much before it as the context holds.

        The pieces are those of lm-eval: every token is scored once, the last piece keeps a full context.
        """
        return sum(self.of(before, scored)[0] for before, scored in self._pieces(self.tokenizer.encode_text(text)))

    def _pieces(self, ids: list[int]) -> Iterator[tuple[list[int], list[int]]]:
        room = self.model.config.max_context - 1
        for start in range(0, len(ids), room):
            end = min(start + room, len(ids))
            known = [self.prefix, *ids][max(0, end - room) : start + 1]
            yield known, ids[start:end]


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Tokens that both begin with."""
    for index, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return index
    return min(len(a), len(b))
