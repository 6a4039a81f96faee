"""Self-distillation text: the base model invents user turns and answers them greedily. Needs no data set.

A drafter must guess the base's own next token, so the base's own text is the best training text for it, and a denoiser
that learns from it stays near what the base would have said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from anyorder.errors import ModelError, ParameterError
from anyorder.models.tokenizer import Tokenizer
from anyorder.models.transformer import Transformer

MARKER = "Hello"
"""A user turn that every tokenizer can spell, to find where the template puts it."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The fixed token ids of a chat around what the model writes; made by `chat_frame`."""

    opening: tuple[int, ...]
    """Up to and including the header of the user turn; the same for every conversation."""
    between: tuple[int, ...]
    """The end of the user turn and the header of the answer."""
    stop_ids: tuple[int, ...]
    """Tokens that end a turn."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """One invented user turn with its greedy answer, as token ids."""

    prompt_ids: tuple[int, ...]
    """Opening, user turn, header of the answer."""
    answer_ids: tuple[int, ...]
    """With the stop token, unless the answer was cut off at its limit."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Lengths in tokens."""

    prompt: int = 48
    answer: int = 200
    top_k: int = 40
    """User turns are sampled at temperature 1 among this many tokens."""


def chat_frame(tokenizer: Tokenizer, stop_ids: Sequence[int]) -> Frame:
    """The ids that the chat template puts around a user turn.

    Raises:
        ModelError: there is no chat template, or it does not show the user turn as it is.
    """
    marker = tokenizer.encode_text(MARKER)
    ids = tokenizer.encode_chat([{"role": "user", "content": MARKER}])
    for start in range(len(ids) - len(marker) + 1):
        if ids[start : start + len(marker)] == marker:
            return Frame(
                opening=tuple(ids[:start]), between=tuple(ids[start + len(marker) :]), stop_ids=tuple(stop_ids)
            )
    raise ModelError("the chat template changes the user turn, so that no frame can be cut out of it; use plain text")


@dataclass(eq=False)
class _Writer:
    """One row of the batch: what is fed next, and what was written so far."""

    pending: list[int]  # ids to be fed before the model goes on by itself
    ids: list[int] = field(default_factory=list)  # fed so far
    answer_start: int | None = None  # None while the user turn is being written


def invent(
    network: Transformer,
    frame: Frame,
    starters: Sequence[Sequence[int]],
    *,
    rows: int = 96,
    seed: int = 0,
    limits: Limits | None = None,
) -> Iterator[Conversation]:
    """Conversations without end, in the order in which they get done.

    Every row of the batch feeds one token per pass, be it a token of the frame, a sampled one of the user turn or the
    best one of the answer; a row that is done begins a new conversation in the next pass.

    Args:
        starters: first ids of user turns, one is drawn per conversation; () lets the model begin.
        rows: conversations written at once.
        seed: of the starters and of the user turns.
    Raises:
        ParameterError: there are no starters, or no rows.
    """
    if rows < 1 or not starters:
        raise ParameterError(f"`rows` must be at least 1 and `starters` not empty, got {rows} and {len(starters)}")
    limits = limits or Limits()
    generator = torch.Generator().manual_seed(seed)
    longest = max(map(len, starters)) + len(frame.opening) + len(frame.between) + limits.prompt + limits.answer
    cache = _BatchCache(network, rows, longest)
    writers = [_begin(frame, starters, generator) for _ in range(rows)]
    while True:
        logits = cache.step([writer.pending[0] for writer in writers], [len(writer.ids) for writer in writers])
        proposals = _proposals(logits, limits.top_k, generator)
        for row, writer in enumerate(writers):
            done = _advance(writer, *proposals[row], frame, limits)
            if done is not None:
                yield done
                writers[row] = _begin(frame, starters, generator)


def _begin(frame: Frame, starters: Sequence[Sequence[int]], generator: torch.Generator) -> _Writer:
    chosen = starters[int(torch.randint(len(starters), (1,), generator=generator))]
    return _Writer([*frame.opening, *chosen])


def _proposals(logits: Tensor, top_k: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Per row the best token and a sampled one."""
    values, ids = logits.topk(top_k, -1)
    drawn = torch.multinomial(values.softmax(-1).cpu(), 1, generator=generator).to(ids.device)
    return torch.stack([ids[:, 0], ids.gather(1, drawn)[:, 0]], -1).tolist()


def _advance(writer: _Writer, best: int, sampled: int, frame: Frame, limits: Limits) -> Conversation | None:
    """Book the fed token, decide the next one; the conversation if it ended."""
    writer.ids.append(writer.pending.pop(0))
    if writer.pending:
        return None
    if writer.answer_start is None:
        _extend_prompt(writer, sampled, frame, limits)
        return None
    answer = [*writer.ids[writer.answer_start :], best]
    if best in frame.stop_ids or len(answer) >= limits.answer:
        return Conversation(prompt_ids=tuple(writer.ids[: writer.answer_start]), answer_ids=tuple(answer))
    writer.pending.append(best)
    return None


def _extend_prompt(writer: _Writer, sampled: int, frame: Frame, limits: Limits) -> None:
    """The user turn goes on with the sampled token, or ends and the answer's header follows."""
    fed = len(writer.ids)
    if sampled in frame.stop_ids or fed - len(frame.opening) >= limits.prompt:
        writer.pending.extend(frame.between)
        writer.answer_start = fed + len(frame.between)
    else:
        writer.pending.append(sampled)


class _BatchCache:
    """Keys and values of `rows` conversations of different lengths, one token fed to each per pass."""

    def __init__(self, network: Transformer, rows: int, capacity: int) -> None:
        config = network.config
        shape = (config.num_layers, rows, config.num_kv_heads, capacity, config.head_dim)
        self.network = network
        self.keys = torch.zeros(shape, dtype=network.dtype, device=network.device)
        self.values = torch.zeros_like(self.keys)
        self.rows = torch.arange(rows, device=network.device)
        self.columns = torch.arange(capacity, device=network.device)

    @torch.inference_mode()
    def step(self, ids: list[int], columns: list[int]) -> Tensor:
        """Logits [rows, V] after feeding ids [rows] at `columns` [rows]."""
        fed, at = torch.tensor([ids, columns], device=self.rows.device)
        visible = int(max(columns)) + 1
        mask = torch.zeros(len(ids), 1, 1, visible, dtype=self.keys.dtype, device=fed.device)
        mask.masked_fill_((self.columns[:visible] > at[:, None])[:, None, None], -torch.inf)

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = self.keys[layer], self.values[layer]
            keys[self.rows, :, at] = k
            values[self.rows, :, at] = v
            grouped = q.view(len(ids), k.shape[1], -1, q.shape[-1])  # [rows, Hkv, G, D]
            mixed = F.scaled_dot_product_attention(
                grouped, keys[:, :, :visible], values[:, :, :visible], attn_mask=mask
            )
            return mixed.reshape(q.shape)

        return self.network.head(self.network(fed, at, attend))
