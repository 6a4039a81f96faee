"""A gap between a prompt and a suffix, as the model can fill it: as a hole, or with control tokens of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyorder.canvas import Hole
from anyorder.errors import ModelError
from anyorder.server.errors import unsupported

if TYPE_CHECKING:
    from anyorder.models.tokenizer import Tokenizer
    from anyorder.server.backend import Backend

SPELLINGS = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),  # Qwen2.5-Coder
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),  # StarCoder, Granite
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),  # DeepSeek-Coder
)
"""Control tokens in front of the prompt, in front of the suffix, and in front of the answer."""
_ENDS = ("<|endoftext|>", "<|fim_pad|>", "<fim_pad>", "<|file_sep|>", "<file_sep>", "<|repo_name|>", "<repo_name>")


@dataclass(frozen=True)
class FimTokens:
    """Ids of the control tokens with which a model was trained to fill gaps."""

    prefix: int
    suffix: int
    middle: int
    ends: tuple[int, ...]
    """Tokens that end the answer besides the model's stop tokens."""


def fim_tokens(tokenizer: Tokenizer) -> FimTokens:
    """Those of the vocabulary.

    Raises:
        ModelError: it has none.
    """
    for spelling in SPELLINGS:
        prefix, suffix, middle = (tokenizer.token_id(token) for token in spelling)
        if prefix is not None and suffix is not None and middle is not None:
            others = (tokenizer.token_id(token) for token in _ENDS)
            ends = (prefix, suffix, middle, *(token for token in others if token is not None))
            return FimTokens(prefix, suffix, middle, ends)
    wanted = ", ".join(spelling[0] for spelling in SPELLINGS)
    raise ModelError(f"`fim_tokens`: the vocabulary has no tokens to fill gaps with ({wanted}); leave it out")


@dataclass(frozen=True)
class Gap:
    """What the engine is asked for one prompt."""

    parts: list[int | str | Hole]
    """The prompt as `encode_prompt` takes it."""
    behind: int
    """Slots of the answer behind it; 0 where a hole in it is filled."""
    stop_ids: tuple[int, ...] | None = None
    """Instead of the model's."""


def fills(backend: Backend) -> bool:
    """True if the model was trained to write between a prompt and a suffix."""
    return backend.fim is not None or backend.model.spec.infill


def gap(backend: Backend, prompt: str | Sequence[int], suffix: str | None, length: int, *, forced: bool = False) -> Gap:
    """The prompt and what stands behind the answer.

    Args:
        suffix: None or nothing: the answer follows the prompt.
        length: longest answer; a hole has exactly that many slots.
        forced: make a hole even if the model was not trained for it: the request names a mode.
    Raises:
        ApiError: the model fills no gaps.
    """
    own: list[int | str | Hole] = [prompt] if isinstance(prompt, str) else [*prompt]
    if not suffix:
        return Gap(own, length)
    if (fim := backend.fim) is not None and not forced:
        stop_ids = tuple(dict.fromkeys((*backend.model.stop_ids, *fim.ends)))
        return Gap([fim.prefix, *own, fim.suffix, suffix, fim.middle], length, stop_ids)
    if not fills(backend) and not forced:
        message = (
            f"`suffix`: {backend.model.spec.title} was not trained to fill a gap, and what stands behind one would not "
            "be read; models that do: LLaDA, Dream, models converted to full diffusion, and those served with "
            "`--fim-tokens`. Leave it out"
        )
        raise unsupported("suffix", message)
    return Gap([*own, Hole(length), suffix], 0)
