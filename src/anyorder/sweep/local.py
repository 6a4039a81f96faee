"""A model in this process."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, cast

import torch

from anyorder.api import EventStream, encoded_prompts, generate
from anyorder.canvas import Hole, Part
from anyorder.errors import ParameterError
from anyorder.models.loaded import LoadedModel
from anyorder.params import DecodeParams
from anyorder.prompt import Prompt
from anyorder.seams import check_seams, measure_seams
from anyorder.sweep.answer import Answer
from anyorder.sweep.items import Gap, Item
from anyorder.sweep.settings import Setting

if TYPE_CHECKING:
    from anyorder.thinking import Reader

SEAMS = 5
"""Pairs that are kept of an answer."""


class LocalSubject:
    """Answers one prompt at a time, so that a time is that of one answer.

    Args:
        seams: ask the model about every pass, too, outside the times.
    """

    def __init__(self, model: LoadedModel, *, seams: bool = False) -> None:
        self.model = model
        self.seams = seams
        self.name = model.source
        self._prompts: dict[str, tuple[list[Part], Reader | None]] = {}  # item -> what the model reads, and is read by

    def identity(self) -> dict[str, Any]:
        """Weights, number format and machine."""
        return {
            "model": self.model.source,
            "weights": fingerprint(self.model),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.model.device),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            **({"seams": "measured"} if self.seams else {}),
        }

    def check(self, item: Item, setting: Setting) -> None:
        """As `anyorder.stream` checks it; runs no pass."""
        if setting.request:
            raise ParameterError(f"setting {setting.name!r} has a `request`, which is for endpoints; drop it")
        if self.seams:
            check_seams(self.model, DecodeParams.of(**setting.params))
        self._stream(item, setting, 0)

    def answer(self, item: Item, setting: Setting, sample: int) -> Answer:
        """Decode it; `Failed` never happens here, an error is an error."""
        is_gpu = self.model.device.type == "cuda"
        before = _reset_peak(self.model.device) if is_gpu else 0
        stream = self._stream(item, setting, sample)
        generation = stream.generations()[0]
        stats, storage = generation.stats, stream.engine.sequences[0].storage
        held = 0 if storage is None else storage.num_bytes
        if is_gpu:
            held = torch.cuda.max_memory_allocated(self.model.device) - before
        worst_gap, seams = self._ask(setting, stream) if self.seams else (None, ())
        return Answer(
            text=(generation.prompt_text if generation.holes else "") + generation.text,
            tokens=stats.tokens,
            passes=stats.passes,
            first_s=stats.time_to_first_s,
            last_s=stats.time_to_last_s,
            memory_bytes=held,
            worst_gap=worst_gap,
            seams=seams,
            ids=(*generation.prompt_ids, *generation.ids),
        )

    def _ask(self, setting: Setting, stream: EventStream) -> tuple[float, tuple[str, ...]]:
        """What the worst pass lost, and the pairs that contradict each other most."""
        report = measure_seams(self.model, stream.events, DecodeParams.of(**setting.params))
        decode = self.model.tokenizer.decode if self.model.tokenizer is not None else str
        pairs = (
            f"pass {each.pass_index}: {decode([pair.ids[0]])!r} and {decode([pair.ids[1]])!r}, {pair.gain:+.1f} nats"
            for each, pair in report.worst(SEAMS)
        )
        return report.worst_gap, tuple(pairs)

    def _stream(self, item: Item, setting: Setting, sample: int) -> EventStream:
        params = DecodeParams.of(**setting.params)
        prompt, reader = self._encoded(item)
        return EventStream(self.model, [prompt], params, samples=[sample], readers=[reader])

    def _encoded(self, item: Item) -> tuple[list[Part], Reader | None]:
        if item.id not in self._prompts:
            (prompt,), (reader,) = encoded_prompts(self.model, [self._prompt(item)], None)
            self._prompts[item.id] = prompt, reader
        return self._prompts[item.id]

    def _prompt(self, item: Item) -> Prompt:
        tokenizer, prompt = self.model.tokenizer, item.prompt
        if isinstance(prompt, str) and tokenizer is not None and tokenizer.has_chat_template:
            return [{"role": "user", "content": prompt}]
        if isinstance(prompt, str) or tokenizer is None:
            return cast(Prompt, prompt)
        parts = [Hole(len(tokenizer.encode_text(p.text))) if isinstance(p, Gap) else p for p in prompt]
        return cast(Prompt, parts)


def fingerprint(model: LoadedModel) -> str:
    """What tells a model's weights from those of another training step: what it says about one text."""
    special = {model.mask_token_id, *model.stop_ids}
    ids = [token for token in range(model.config.vocab_size) if token not in special][-8:]
    trace = generate(model, ids, max_new_tokens=2, stop_ids=()).trace
    return " ".join(f"{slot.id}:{slot.confidence:.5g}" for slot in trace)


def _reset_peak(device: torch.device) -> int:
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)
