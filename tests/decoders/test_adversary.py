"""Insert and delete against a model that means no good: it always ends, and nothing moves that must not."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.canvas import Canvas
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.structure import StructureDecoder
from anyorder.events import BlockFinished, Committed, Event, Remasked, Revised
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs
from anyorder.policies.structure import Rules

MASK, DELETE, INSERT, STOP, VOCABULARY = 11, 9, 10, 8, 12
PLAIN = set(range(9))


def decoder_of(prompt: list[int], length: int, block: int, **rules: Any) -> StructureDecoder:
    canvas = Canvas.from_prompt(prompt, mask_id=MASK)
    return StructureDecoder(
        canvas,
        Chooser(policy=POLICIES["threshold"], sampling=Sampling(mask_id=MASK), knobs=Knobs(threshold=0.5)),
        rules=Rules(mask_id=MASK, delete_id=DELETE, insert_id=INSERT, **rules),
        end=len(prompt) + length,
        block_length=block,
        stop_ids=(STOP,),
        fuse_write=True,
    )


class Story:
    """The canvas as the events tell it, and what must hold of every one of them."""

    def __init__(self, prompt: list[int]) -> None:
        self.ids = dict(enumerate(prompt))
        self.floor = len(prompt)  # what is before it never changes
        self.since = 0  # passes when the last block was finished

    def take(self, event: Event, most: int) -> None:
        if isinstance(event, Committed):
            assert not set(event.slots) & set(self.ids)
        if isinstance(event, Revised | Remasked):
            assert set(event.slots) <= set(self.ids)
        if isinstance(event, Committed | Revised | Remasked):
            assert min(event.slots) >= self.floor
        if isinstance(event, Committed | Revised):
            assert set(event.ids) <= PLAIN, "a control token or the mask became text"
            self.ids |= dict(zip(event.slots, event.ids, strict=True))
        if isinstance(event, Remasked):
            self.ids = {slot: token for slot, token in self.ids.items() if slot not in event.slots}
        if isinstance(event, BlockFinished):
            assert set(range(event.end)) <= set(self.ids), "a block with masks is finished"
            assert event.passes - self.since <= most, "a block takes too long"
            self.floor, self.since = event.end, event.passes


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    prompt=st.lists(st.integers(0, 7), min_size=1, max_size=7),
    length=st.integers(1, 14),
    block=st.integers(1, 5),
    steps=st.integers(1, 6),
    post=st.integers(0, 5),
    urge=st.sampled_from([0.0, 2.0, 6.0, 30.0]),
    control=st.sampled_from([(DELETE,), (INSERT,), (DELETE, INSERT), (STOP,), ()]),
)
def test_any_logits(
    seed: int, prompt: list[int], length: int, block: int, steps: int, post: int, urge: float, control: tuple[int, ...]
) -> None:
    """Random logits with an urge to insert, to delete, to do both or to stop.

    A block takes its schedule, one pass in which the last masks of the beginning are filled, and its later passes.
    """
    steps = min(steps, block)
    generator, draw = torch.Generator().manual_seed(seed), random.Random(seed)
    decoder = decoder_of(
        prompt, length, block, threshold=draw.random(), edit_threshold=draw.choice([0.0, 0.2, 0.6]), steps=steps,
        max_post_passes=post,
    )  # fmt: skip
    story = Story(prompt)
    for event in decoder.start():
        story.take(event, 0)
    while not decoder.finished:
        (window,) = decoder.plan()
        logits = torch.randn(window.rows.shape[0], VOCABULARY, generator=generator, dtype=torch.float64) * 2
        logits[:, list(control)] += urge * torch.rand(len(logits), 1, generator=generator, dtype=torch.float64)
        for event in decoder.apply(decoder.decide([logits])):
            story.take(event, steps + 1 + post)
    canvas = decoder.canvas.ids.tolist()
    assert {slot: token for slot, token in enumerate(canvas) if token != MASK} == story.ids
    assert canvas[: len(prompt)] == prompt


@pytest.mark.parametrize("control", [DELETE, INSERT])
def test_a_model_that_only_inserts_or_deletes(control: int) -> None:
    """Nothing else is ever sure: every block still ends with its passes, and with text."""
    decoder = decoder_of([1, 2], 8, 5, threshold=0.5, edit_threshold=0.0, steps=5, max_post_passes=16)
    decoder.start()
    while not decoder.finished:
        (window,) = decoder.plan()
        logits = torch.zeros(window.rows.shape[0], VOCABULARY, dtype=torch.float64)
        logits[:, control] = 20
        decoder.apply(decoder.decide([logits]))
    assert decoder.passes <= 2 * (5 + 1 + 16)
    assert set(decoder.canvas.ids.tolist()) <= PLAIN
