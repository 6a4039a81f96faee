"""Recorded runs of MDLM and BD3-LM: one entry per time step of the sampler, with every random draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.full import FullDecoder
from anyorder.draws import Draws, Stream
from anyorder.models.loaded import LoadedModel
from anyorder.policies.catalog import POLICIES
from anyorder.reference.outcome import Mismatch, expect
from anyorder.runner import Runner

Case = dict[str, Any]
Step = dict[str, Any]
TOLERANCE = 1e-4
"""Of recorded probabilities."""


@torch.inference_mode()
def check(model: LoadedModel, case: Case) -> str:
    """Replay a run row by row: what is fed, every canvas, the probability of what was drawn, the number of forwards.

    Forwards over canvases without a mask are left out: BD3-LM's sampler stores a finished block in one, ours in the
    next block's first forward, and MDLM's ends with one in any case. What is masked at time 0 becomes token 0 in
    BD3-LM's sampler, and here as recorded.

    Raises:
        Mismatch: at the first difference.
    """
    passes = [_Replay(model, case, row).run() for row in range(case["num_samples"])]
    mask_id = model.mask_token_id
    fed = [forward["input_ids"][0] for step in case["steps"] for forward in step["forwards"]]
    forwards = sum(mask_id in ids for ids in fed)
    if case["num_samples"] == 1:
        expect(passes[0] == forwards, f"{passes[0]} forwards, recorded are {forwards}")
    return f"{len(case['steps'])} steps, {max(passes)} passes"


class _Replay:
    """One row of a run."""

    def __init__(self, model: LoadedModel, case: Case, row: int) -> None:
        assert model.mask_token_id is not None
        self.case, self.row = case, row
        blocks = model.spec.attention == "block"
        length = (model.block_length or 1) if blocks else len(case["output_ids"][row])
        draws = StepDraws(steps=tuple(case["steps"]), row=row, block_length=length, mask_id=model.mask_token_id)
        params = case["params"]
        policy = "first_hitting" if params.get("first_hitting") else "ddpm" if blocks else "ddpm_cache"
        chooser = Chooser(
            policy=POLICIES[policy],
            sampling=Sampling(
                mask_id=model.mask_token_id,
                temperature=1.0,
                top_p=params.get("nucleus_p"),
                nucleus=model.spec.nucleus,
                confidence=model.spec.confidence,
                draws=draws,
            ),
        )
        prompt = [case["bos_token_id"]] if blocks else []
        canvas = Canvas.from_prompt(prompt, mask_id=model.mask_token_id)
        end = len(case["output_ids"][row])
        if blocks:
            scheme = "block" if params.get("kv_cache") else "none"
            self.decoder = BlockDecoder(
                canvas, chooser, end=end, block_length=length, steps=params["num_steps"], scheme=scheme,
                context=params["context_size"], fuse_write=True,
            )  # fmt: skip
        else:
            canvas.grow(end)
            self.decoder = FullDecoder(canvas, chooser, end=end, steps=params["num_steps"], eps=1e-5)
        self.draws = draws
        self.runner = Runner(model.network)
        self.storage = self.runner.storage(end)

    def run(self) -> int:
        """To the end; the number of passes."""
        decoder, output = self.decoder, self.case["output_ids"][self.row]
        decoder.start()
        while decoder.finished is None:
            self._step()
        ours = decoder.canvas.ids.tolist()
        expect(ours == output, f"output {ours}, recorded {output}")
        return decoder.passes

    def _step(self) -> None:
        decoder = self.decoder
        (window,) = decoder.plan()
        number = decoder.step if decoder.schedule.ancestral else decoder.passes
        if decoder.schedule.ends(decoder.step):  # what is left gets its best token; the output says which
            decoder.apply(decoder.decide(self.runner.forward([window], [self.storage])).cpu())
            return
        step, chance = self.draws.step(decoder.slots, number), decoder.schedule.probability(decoder.step)
        self._same(decoder.canvas.ids, step["canvas"], number)
        for forward in [forward for forward in step["forwards"] if not forward.get("store_kv")][:1]:
            self._same(window.ids[-len(forward["input_ids"][self.row]) :], forward["input_ids"], number)
        decision = decoder.decide(self.runner.forward([window], [self.storage])).cpu()
        slots, chosen = decoder.slots, decision[2] > 0
        recorded = step["prob_of_sampled"][self.row]
        for slot, probability in zip(slots[chosen].tolist(), decision[1][chosen].tolist(), strict=True):
            there = recorded[slot % self.draws.block_length]
            ours = probability * (chance if decoder.schedule.ancestral else 1.0)
            same = there is None or abs(ours - there) < TOLERANCE
            expect(same, f"step {number} draws with probability {ours:.6f}, recorded {there}")
        length = len(decoder.canvas)
        decoder.apply(decision)
        self._same(decoder.canvas.ids[:length], step["next_canvas"], number)

    def _same(self, ours: Tensor, recorded: list[list[int]], number: int) -> None:
        there = recorded[self.row]
        expect(ours[-len(there) :].tolist() == there, f"step {number} has {ours.tolist()}, recorded {there}")


@dataclass(frozen=True, slots=True)
class StepDraws(Draws):
    """What one row drew.

    Args:
        steps: of the run.
        row: of the batch.
        block_length: slots per block.
        mask_id: drawn for a slot that stays masked.
    """

    steps: tuple[Step, ...] = ()
    row: int = 0
    block_length: int = 1
    mask_id: int = -1

    def step(self, slots: Tensor, number: int) -> Step:
        """A recorded step: by its number in the run where each reveals one slot, else by that in the slots' block."""
        steps = self.steps
        if "masked_choice" not in steps[0]:
            ends = int(slots[0]) // self.block_length * self.block_length + self.block_length
            steps = [step for step in steps if len(step["canvas"][self.row]) == ends]
        if number >= len(steps):
            raise Mismatch(f"step {number} is not recorded")
        return steps[number]

    def _ids(self, slots: Tensor, number: int) -> Tensor:
        return torch.tensor(self.step(slots, number)["sampled_ids"][self.row])[slots % self.block_length]

    def uniform(self, slots: Tensor, pass_index: int, stream: Stream = "token") -> Tensor:
        """See `Draws.uniform`: 1 for the one slot that was chosen, else 0; or -1 where a slot is revealed, else 2."""
        step = self.step(slots, pass_index)
        if "masked_choice" in step:
            return (torch.arange(len(slots)) == step["masked_choice"][self.row]).double()
        return torch.where(self._ids(slots, pass_index) == self.mask_id, 2.0, -1.0).double()

    def tokens(self, logits: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """See `Draws.tokens`; slots that stay masked get their best token, which nobody commits."""
        ids = self._ids(slots, pass_index).to(logits.device)
        return torch.where(ids == self.mask_id, logits.argmax(-1), ids)
