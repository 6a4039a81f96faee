"""`generate` of transformers' DiffusionGemma, pass by pass, against ours with the same draws and in float64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_gemma import CANVAS, config, theirs
from torch import Tensor

import anyorder
from anyorder.decoders.renoise import RenoiseDecoder
from anyorder.draws import Draws, Stream

generation = pytest.importorskip("transformers.models.diffusion_gemma.generation_diffusion_gemma")
from transformers import LogitsProcessor, LogitsProcessorList, TopKLogitsWarper, TopPLogitsWarper  # noqa: E402

VOCABULARY, PAD = 96, 94
EXACT = 1e-6
"""Between entropies in float64: what a pass rounds, the passes behind it magnify, up to 1e-9 here."""


@dataclass(kw_only=True)
class Pass:
    """What one pass over one row's canvas read, drew and decided."""

    canvas: list[int]
    drawn: list[int]
    accepted: list[bool]
    entropy: Tensor
    best: list[int]
    ends: bool
    noise: list[int] = field(default_factory=list[int])
    """What the slots that are not accepted become."""


@dataclass
class Recording:
    """A run of transformers: its canvases, and every pass over each of them."""

    begun: list[Tensor] = field(default_factory=list[Tensor])
    """[B, canvas] noise that each canvas began as."""
    passes: list[list[dict[str, Tensor]]] = field(default_factory=list[list[dict[str, Tensor]]])

    def attach(self, patch: pytest.MonkeyPatch) -> None:
        """Listen to the sampler and to the stopping criterion."""
        sampler, stopping = generation.EntropyBoundSampler, generation.StableAndConfidentStoppingCriteria
        accept, renoise, start, stop = (
            sampler.accept_canvas, sampler.renoise_canvas, sampler.initialize_canvas, stopping.__call__
        )  # fmt: skip
        inside = list[bool]()

        def started(own: Any, *args: Any, **kwargs: Any) -> Tensor:
            noise = start(own, *args, **kwargs)
            if inside:
                self.passes[-1][-1]["noise"] = noise.clone()
            else:
                self.begun.append(noise.clone())
                self.passes.append([])
            return noise

        def accepted(own: Any, canvas: Tensor, drawn: Tensor, logits: Tensor, step: Any) -> Tensor:
            result = accept(own, canvas, drawn, logits, step)
            entropy = torch.distributions.Categorical(logits=logits).entropy()
            found = {"canvas": canvas, "drawn": drawn, "accepted": own.accepted_token_mask, "entropy": entropy}
            self.passes[-1].append({name: tensor.clone() for name, tensor in found.items()})
            return result

        def renoised(own: Any, canvas: Tensor, step: Any) -> Tensor:
            inside.append(True)
            result = renoise(own, canvas, step)
            inside.pop()
            return result

        def stopped(own: Any, best: Tensor, logits: Tensor, **kwargs: Any) -> Tensor:
            result = stop(own, best, logits, **kwargs)
            self.passes[-1][-1] |= {"best": best.clone(), "stops": result.clone()}
            return result

        patch.setattr(sampler, "initialize_canvas", started)
        patch.setattr(sampler, "accept_canvas", accepted)
        patch.setattr(sampler, "renoise_canvas", renoised)
        patch.setattr(stopping, "__call__", stopped)

    def row(self, row: int, stops: Sequence[int]) -> list[list[Pass]]:
        """The passes that a row would have had alone, canvas by canvas until one holds a stop token."""
        own = list[list[Pass]]()
        for canvas in self.passes:
            own.append(_own(canvas, row))
            if not set(own[-1][-1].best).isdisjoint(stops):
                break
        return own


def _own(canvas: list[dict[str, Tensor]], row: int) -> list[Pass]:
    own = list[Pass]()
    for step in canvas:
        part = {name: tensor[row] for name, tensor in step.items()}
        own.append(
            Pass(
                canvas=part["canvas"].tolist(), drawn=part["drawn"].tolist(), accepted=part["accepted"].tolist(),
                entropy=part["entropy"], best=part["best"].tolist(), noise=part["noise"].tolist(),
                ends=bool(part["stops"]) or step is canvas[-1],
            )
        )  # fmt: skip
        if own[-1].ends:
            break
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Draws):
    """What a row of the recording drew: noise where a canvas begins, then by the number of the row's own pass."""

    begun: list[list[int]]
    passes: list[Pass]
    first: int
    """The first slot of the answer."""

    def uniform(self, slots: Tensor, pass_index: int, stream: Stream = "token") -> Tensor:
        """See `Draws.uniform`: the middle of the number's interval, so that rounding cannot leave it."""
        canvas = (int(slots[0]) - self.first) // CANVAS
        ids = self.begun[canvas] if pass_index < 0 else self.passes[pass_index].noise
        return (torch.tensor(ids, dtype=torch.float64) + 0.5) / VOCABULARY

    def chosen(self, probabilities: Tensor, slots: Tensor, pass_index: int) -> Tensor:
        """See `Draws.chosen`."""
        return torch.tensor(self.passes[pass_index].drawn)


def listen(patch: pytest.MonkeyPatch, rows: int) -> list[list[Pass]]:
    """What our decoders read, drew and decided, row by row and pass by pass."""
    heard: list[list[Pass]] = [[] for _ in range(rows)]
    apply = RenoiseDecoder.apply

    def applied(decoder: RenoiseDecoder, decision: Tensor) -> Any:
        canvas, block = decoder.noisy.tolist(), decoder.block
        drawn, best = decision.chunk(2, 1)
        events = apply(decoder, decision)
        heard[decoder.canvas.request].append(
            Pass(
                canvas=canvas, drawn=drawn[0].long().tolist(), accepted=(drawn[2] > 0).tolist(), entropy=drawn[1],
                best=best[0].long().tolist(), ends=decoder.finished is not None or decoder.block != block,
            )
        )  # fmt: skip
        return events

    patch.setattr(RenoiseDecoder, "apply", applied)
    return heard


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call of `generate`."""

    lengths: tuple[int, ...] = (7,)
    """Of the prompts; the window is 6 columns wide."""
    new_tokens: int = 3 * CANVAS
    steps: int = 20
    bound: float = 1.0
    t_min: float = 0.4
    t_max: float = 0.8
    stability: int = 1
    confidence: float = 0.15
    stops: tuple[int, ...] = (95,)
    seed: int = 0
    top_k: int | None = None
    top_p: float | None = None
    bias: dict[int, float] = field(default_factory=dict[int, float])
    changes: dict[str, Any] = field(default_factory=dict[str, Any])
    witness: str = "several canvases"
    """What the run must show, or it proves nothing; see `WITNESSES`."""


def pairs(canvas: list[Pass]) -> list[tuple[Pass, Pass]]:
    return list(pairwise(canvas))


WITNESSES: dict[str, Callable[[Case, list[list[Pass]]], bool]] = {
    "several canvases": lambda case, run: len(run) > 1,
    "all passes": lambda case, run: all(len(canvas) == case.steps for canvas in run),
    "stopped early": lambda case, run: any(len(canvas) < case.steps for canvas in run),
    "sure, not stable": lambda case, run: any(
        float(now.entropy.mean()) < case.confidence and now.best != before.best and not now.ends
        for canvas in run for before, now in pairs(canvas)
    ),
    "stable, not sure": lambda case, run: any(
        float(now.entropy.mean()) >= case.confidence and now.best == before.best and not now.ends
        for canvas in run for before, now in pairs(canvas)
    ),
    "taken back": lambda case, run: any(
        now.canvas[slot] == before.drawn[slot] and before.accepted[slot] and not now.accepted[slot]
        for canvas in run for before, now in pairs(canvas) for slot in range(CANVAS)
    ),
    "all in one pass": lambda case, run: any(all(step.accepted) for canvas in run for step in canvas),
    "one in a pass": lambda case, run: any(sum(step.accepted) == 1 for canvas in run for step in canvas),
    "nothing but the cut": lambda case, run: all(
        float(step.entropy.max()) <= math.log(case.top_k or 0) + EXACT for canvas in run for step in canvas
    ),
    "sure by the cut": lambda case, run: any(float(step.entropy.min()) == 0 for canvas in run for step in canvas),
    "ended inside a canvas": lambda case, run: not set(run[-1][-1].best[:-1]).isdisjoint(case.stops),
}  # fmt: skip


CASES: dict[str, Case] = {
    "as soon as it is sure": Case(stability=0, seed=3, witness="stopped early"),
    "sure before it is stable": Case(witness="sure, not stable"),
    "stable before it is sure": Case(stability=2, steps=24, seed=3, witness="stable, not sure"),
    "three times the same": Case(stability=3, steps=24, bound=2.0, confidence=0.3, seed=4, witness="stopped early"),
    "never sure": Case(steps=6, confidence=1e-12, witness="all passes"),
    "one pass": Case(steps=1, witness="all passes"),
    "accepted tokens that become noise again": Case(seed=1, witness="taken back"),
    "a bound for one token": Case(steps=7, bound=1e-6, witness="one in a pass"),
    "a bound for all tokens": Case(steps=7, bound=1e3, confidence=1e-12, witness="all in one pass"),
    "cold": Case(t_min=0.05, t_max=0.2, steps=9, stability=2, seed=5),
    "hot": Case(t_min=1.0, t_max=3.0, steps=9, bound=9.0, seed=5),
    "several stop tokens in a canvas": Case(stops=tuple(range(0, 96, 7)), seed=2, witness="ended inside a canvas"),
    "a canvas and a half": Case(new_tokens=CANVAS + CANVAS // 2, seed=3),
    "less than a canvas": Case(new_tokens=3, seed=3, witness="stopped early"),
    "a prompt of one token": Case(lengths=(1,), seed=3),
    "a prompt of three windows": Case(lengths=(19,), seed=4),
    "a batch": Case(lengths=(3, 19, 7), seed=1),
    "a batch that ends one by one": Case(lengths=(11, 2, 6, 5), stops=tuple(range(0, 96, 9)), new_tokens=32, seed=5),
    "the three likeliest tokens": Case(top_k=3, seed=2, witness="nothing but the cut"),
    "a nucleus": Case(top_p=0.5, seed=3, t_min=1.0, t_max=3.0, steps=9, witness="sure by the cut"),
    "the likeliest tokens of a nucleus": Case(top_k=5, top_p=0.7, seed=4, t_min=1.0, t_max=2.0, steps=9),
    "biases before a nucleus": Case(top_p=0.6, bias={3: 4.0, 40: -100.0, 41: 2.5}, seed=2, witness="stopped early"),
    "one key head": Case(changes={"num_key_value_heads": 1}, seed=2),
    "every layer sees everything": Case(changes={"layer_types": ["full_attention"] * 3}, seed=3),
    "a window wider than text and canvas": Case(changes={"sliding_window": 64}, seed=3),
}


class Processed(LogitsProcessor):
    """Biases, then transformers' own filters, which know rows of logits but no canvases of them."""

    def __init__(self, case: Case) -> None:
        self.bias = torch.zeros(VOCABULARY, dtype=torch.float64)
        self.bias[list(case.bias)] = torch.tensor(list(case.bias.values()), dtype=torch.float64)
        self.filters = [TopKLogitsWarper(case.top_k)] if case.top_k else []
        self.filters += [TopPLogitsWarper(case.top_p)] if case.top_p else []

    def __call__(self, input_ids: Any, scores: Tensor) -> Tensor:
        rows = scores.flatten(0, 1) + self.bias
        for keep in self.filters:
            rows = keep(input_ids, rows)
        return rows.view_as(scores)


@contextmanager
def in_float64() -> Generator[pytest.MonkeyPatch]:
    """What transformers computes in float32 beside weights in bfloat16 is float64, too."""
    usual = torch.get_default_dtype()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("float32", "float"):
            patch.setattr(torch, name, torch.float64)
        patch.setattr(Tensor, "float", Tensor.double)
        torch.set_default_dtype(torch.float64)
        try:
            yield patch
        finally:
            torch.set_default_dtype(usual)


def reference(case: Case, folder: Path) -> Any:
    """A random model of transformers that is certain enough to settle."""
    raw = config(**case.changes)
    model = theirs(raw, case.seed)
    model.set_experts_implementation("eager")  # the grouped product knows no float64
    model.model.decoder.embed_tokens.weight.data *= 8
    model.model.decoder.self_conditioning.down_proj.weight.data *= 50
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    return model


def recorded(case: Case, folder: Path) -> tuple[Recording, list[list[int]], Any]:
    """A call of transformers: what happened in it, its prompts, its output."""
    generator = torch.Generator().manual_seed(case.seed)
    prompts = [torch.randint(90, (length,), generator=generator).tolist() for length in case.lengths]
    width = max(case.lengths)
    padded = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    recording = Recording()
    with in_float64() as patch:
        patch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: None)  # imports the whole compiler
        recording.attach(patch)
        model = reference(case, folder)
        torch.manual_seed(case.seed)
        output = model.generate(
            padded,
            attention_mask=mask,
            max_new_tokens=case.new_tokens,
            max_denoising_steps=case.steps,
            t_min=case.t_min,
            t_max=case.t_max,
            stability_threshold=case.stability,
            confidence_threshold=case.confidence,
            sampler_config=generation.EntropyBoundSamplerConfig(entropy_bound=case.bound),
            eos_token_id=list(case.stops),
            pad_token_id=PAD,
            logits_processor=LogitsProcessorList([Processed(case)]),
            return_dict_in_generate=True,
        )
    return recording, prompts, output


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_every_pass_is_that_of_transformers(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a pass reads, accepts and thinks, where a canvas ends, and the text; a batch is left-padded there."""
    recording, prompts, output = recorded(case, tmp_path)
    runs = [recording.row(row, case.stops) for row in range(len(prompts))]
    assert any(WITNESSES[case.witness](case, run) for run in runs), "the run does not show what it is for"
    flat = [[step for canvas in run for step in canvas] for run in runs]

    def draws(seed: int, sample: int) -> Draws:
        begun = [noise[sample].tolist() for noise in recording.begun]
        return Replayed(begun=begun, passes=flat[sample], first=len(prompts[sample]))

    monkeypatch.setattr("anyorder.request.choosing.Draws", draws)
    heard = listen(monkeypatch, len(prompts))
    answers = anyorder.generate_batch(
        anyorder.load(tmp_path, dtype="float64"),
        prompts,
        samples=range(len(prompts)),
        max_new_tokens=case.new_tokens,
        steps=case.steps,
        entropy_bound=case.bound,
        t_min=case.t_min,
        t_max=case.t_max,
        stability_threshold=case.stability,
        confidence_threshold=case.confidence,
        stop_ids=case.stops,
        top_k=case.top_k,
        top_p=case.top_p,
        logit_bias=case.bias,
    )
    for row, answer in enumerate(answers):
        assert len(heard[row]) == len(flat[row])
        for number, (ours, expected) in enumerate(zip(heard[row], flat[row], strict=True)):
            for name in ("canvas", "accepted", "best", "ends"):
                assert getattr(ours, name) == getattr(expected, name), f"{name} of pass {number} of row {row}"
            torch.testing.assert_close(ours.entropy, expected.entropy, atol=EXACT, rtol=0)
        text = output.sequences[row, max(case.lengths) :].tolist()
        assert list(answer.ids) == up_to_a_stop(text[: case.new_tokens], case.stops)
        written = len(text) - text.count(PAD)
        assert answer.stats.passes == round(written / float(output.tokens_per_forward[row]))


def up_to_a_stop(ids: list[int], stops: tuple[int, ...]) -> list[int]:
    return next((ids[:index] for index, token in enumerate(ids) if token in stops), ids)
