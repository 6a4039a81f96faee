"""Recorded runs of DiffusionGemma: canvases of noise, with every random draw of every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anyorder.canvas import Canvas
from anyorder.decoders.choose import Sampling
from anyorder.decoders.renoise import Cleaning, RenoiseDecoder
from anyorder.draws import Draws, Stream
from anyorder.models.gemma.network import DiffusionGemma
from anyorder.models.loaded import LoadedModel
from anyorder.reference.outcome import Mismatch, expect
from anyorder.runner import Runner

Case = dict[str, Any]
Step = dict[str, Any]
TOLERANCE = 1e-3
"""Of recorded entropies: low temperatures magnify the rounding of logits, and a float64 run is 3e-4 away."""


@torch.inference_mode()
def check(model: LoadedModel, case: Case) -> str:
    """Replay a run row by row: every canvas of noise, what is accepted, entropies, stop decisions, the ids.

    Raises:
        Mismatch: at the first difference.
    """
    passes = [_replay(model, case, row) for row in range(len(case["prompt_ids"]))]
    recorded = sum(len(canvas["steps"]) for canvas in case["canvases"])
    expect(max(passes) == recorded, f"{max(passes)} passes, recorded are {recorded}")
    return f"{recorded} passes, {len(case['canvases'])} canvases"


def _replay(model: LoadedModel, case: Case, row: int) -> int:
    network, params = model.network, case["params"]
    assert isinstance(network, DiffusionGemma)
    assert model.block_length is not None
    padding = case["attention_mask"][row].index(1) if "attention_mask" in case else 0
    prompt = case["prompt_ids"][row][padding:]
    canvases = -(-params["max_new_tokens"] // model.block_length)
    end = len(prompt) + canvases * model.block_length
    draws = CanvasDraws(case=case, row=row, vocab_size=model.config.vocab_size, canvas_length=model.block_length)
    decoder = RenoiseDecoder(
        Canvas.from_prompt(prompt, mask_id=-1),
        Sampling(mask_id=None, draws=draws),
        end=end,
        canvas_length=model.block_length,
        vocab_size=model.config.vocab_size,
        soften=network.soften,
        cleaning=Cleaning(
            steps=params["max_denoising_steps"],
            entropy_bound=params["sampler_config"]["entropy_bound"],
            t_min=params["t_min"],
            t_max=params["t_max"],
            stability=params["stability_threshold"],
            confidence=params["confidence_threshold"],
        ),
        stop_ids=tuple(params["eos_token_id"]),
    )
    runner = Runner(network)
    storage = runner.storage(end)
    decoder.start()
    while decoder.finished is None:
        step = draws.step(decoder.passes)
        (window,) = decoder.plan()
        expect(decoder.noisy.tolist() == step["canvas"][row], f"canvas of pass {decoder.passes} differs")
        decision = decoder.decide(runner.forward([window], [storage])).cpu()
        drawn, best = decision.chunk(2, 1)
        entropy = torch.tensor(step["token_entropy"][row], dtype=torch.float64)
        difference = float((drawn[1] - entropy).abs().max())
        expect(difference < TOLERANCE, f"entropies of pass {decoder.passes} differ by {difference:.1e}")
        accepted = drawn[2].long().tolist()
        expect(accepted == step["accepted_mask"][row], f"pass {decoder.passes} accepts {accepted}")
        expect(best[0].long().tolist() == step["argmax_canvas"][row], f"best tokens of pass {decoder.passes} differ")
        block = decoder.block
        decoder.apply(decision)
        left = decoder.finished is not None or decoder.block != block
        stops = step["finished_after"][row] or step["cur_step"] == 1
        expect(left == stops, f"after pass {decoder.passes} the canvas is {'' if left else 'not '}finished")
    _compare(decoder, case["sequences"][row][padding:], params["pad_token_id"])
    return decoder.passes


def _compare(decoder: RenoiseDecoder, recorded: list[int], pad: int) -> None:
    """Up to the first stop token; the published sampler fills what follows with padding."""
    stop = decoder.stop_slot()
    length = len(decoder.canvas) if stop is None else stop + 1
    ours = decoder.canvas.ids[:length].tolist()
    expect(ours == recorded[:length], f"output {ours}, recorded {recorded}")
    expect(all(token == pad for token in recorded[length:]), f"finished at slot {length}, recorded is {recorded}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CanvasDraws(Draws):
    """What one row of a recorded run drew."""

    case: Case
    row: int
    vocab_size: int
    canvas_length: int

    def step(self, number: int) -> Step:
        """The row's own pass `number`: passes after it had finished a canvas, or its text, are not its own."""
        own = [
            step for canvas in self.case["canvases"] for step in canvas["steps"]
            if not step["finished_before"][self.row]
        ]  # fmt: skip
        if number >= len(own):
            raise Mismatch(f"pass {number} is not recorded")
        return own[number]

    def uniform(self, slots: Tensor, pass_index: int, stream: Stream = "token") -> Tensor:
        """See `Draws.uniform`: the middle of the number's interval, so that rounding cannot leave it."""
        if pass_index < 0:
            width = self.canvas_length
            padding = self.case["attention_mask"][self.row].index(1) if "attention_mask" in self.case else 0
            canvas = (int(slots[0]) + padding - len(self.case["prompt_ids"][self.row])) // width
            ids = self.case["canvases"][canvas]["initial_canvas"][self.row]
        else:
            ids = self.step(pass_index)["renoise_ids"][self.row]
        return (torch.tensor(ids, dtype=torch.float64) + 0.5) / self.vocab_size

    def chosen(self, probabilities: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """See `Draws.chosen`."""
        return torch.tensor(self.step(pass_index)["sampled_ids"][self.row], device=probabilities.device)
