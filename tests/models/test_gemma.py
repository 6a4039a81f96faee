"""DiffusionGemma against transformers' own implementation, on small random configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder.errors import ModelError, ParameterError
from anyorder.models.families import recognise
from anyorder.runner import Runner
from anyorder.window import Window

transformers = pytest.importorskip("transformers")

REFERENCE = Path(__file__).parents[1] / "reference" / "diffusion_gemma"
TOLERANCE = 2e-4
CANVAS = 8


def config(**changes: Any) -> dict[str, Any]:
    raw = json.loads((REFERENCE / "config.json").read_text("utf-8"))
    raw["canvas_length"] = CANVAS
    raw["text_config"] |= {"sliding_window": 6, "vocab_size": 96, "hidden_size": 48} | changes
    raw |= {"boi_token_id": 91, "eoi_token_id": 92, "image_token_id": 93}
    return raw


VARIANTS: dict[str, dict[str, Any]] = {
    "published shape": {},
    "one key head in sliding layers": {"num_key_value_heads": 1},
    "as many key heads as heads": {"num_global_key_value_heads": 4, "num_key_value_heads": 4},
    "one expert per token": {"top_k_experts": 1, "num_experts": 3},
    "all experts": {"top_k_experts": 4},
    "all of a head turns": {
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 1.0, "rope_theta": 5e5, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 3e3, "rope_type": "default"},
        }
    },
    "every layer sees everything": {"layer_types": ["full_attention"] * 3},
}


def theirs(raw: dict[str, Any], seed: int) -> Any:
    """A random model of transformers; norms, scales and scalars are not ones."""
    model = transformers.DiffusionGemmaForBlockDiffusion(transformers.DiffusionGemmaConfig(**raw)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.dim() > 1:
                # a random network that heeds what it is told magnifies rounding from pass to pass
                gain = 0.02 if "self_conditioning.down_proj" in name else 1.0
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * tensor.shape[-1] ** -0.5 * gain)
            elif "inv_freq" not in name and "embed_scale" not in name and tensor.numel():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + 0.75)
    return model


def both(folder: Path, seed: int = 0, **changes: Any) -> tuple[Any, anyorder.LoadedModel]:
    raw = config(**changes)
    reference = theirs(raw, seed)
    reference.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    return reference, anyorder.load(folder, dtype="float32")


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
@torch.inference_mode()
def test_logits_are_those_of_transformers(changes: dict[str, Any], tmp_path: Path) -> None:
    """Of a canvas behind a text that is longer than the window, told and not told; and of the causal mode."""
    reference, model = both(tmp_path, **changes)
    generator = torch.Generator().manual_seed(5)
    text, canvas = (torch.randint(90, (1, length), generator=generator) for length in (11, CANVAS))
    told = torch.randn(1, CANVAS, 96, generator=generator) * 3
    for logits in (None, told):
        expected = reference(input_ids=text, decoder_input_ids=canvas, self_conditioning_logits=logits)
        soft = None if logits is None else model.network.soften(logits[0].softmax(-1))
        window = Window(
            ids=torch.cat([text[0], canvas[0]]), start=0, visible=11 + CANVAS, rows=torch.arange(11, 11 + CANVAS),
            attention="causal", adapted=11, soft=soft, stores=False,
        )  # fmt: skip
        (found,) = Runner(model.network).forward([window], [None])
        torch.testing.assert_close(found, expected.logits[0], atol=TOLERANCE, rtol=0)
    hidden = reference.model.encoder(input_ids=text).last_hidden_state[0]
    capped = (reference.lm_head(hidden) / 30).tanh() * 30
    window = Window(ids=text[0], start=0, visible=11, rows=torch.arange(11), attention="causal", stores=False)
    torch.testing.assert_close(Runner(model.network).forward([window], [None])[0], capped, atol=TOLERANCE, rtol=0)


@pytest.fixture(scope="module")
def model() -> anyorder.LoadedModel:
    return anyorder.load(REFERENCE, dtype="float32")


@pytest.mark.parametrize("changes", [{}, {"temperature": 0.3}, {"forced": {0: 7, 18: 9}}, {"mode": "causal"}])
def test_cache_and_company_change_nothing(model: anyorder.LoadedModel, changes: dict[str, Any]) -> None:
    changes = {"max_new_tokens": 21, "stop_ids": ()} | changes
    if "mode" not in changes:
        changes["steps"] = 5
    prompts = [[3, 5, 8, 13], [21] * 17]
    alone = [anyorder.generate(model, prompt, **changes) for prompt in prompts]
    bare = [anyorder.generate(model, prompt, cache="none", **changes) for prompt in prompts]
    together = anyorder.generate_batch(model, prompts, **changes)
    assert [a.ids for a in alone] == [a.ids for a in bare] == [a.ids for a in together]
    assert all(len(answer.ids) == 21 for answer in alone)
    for offset, token in changes.get("forced", {}).items():
        assert alone[0].ids[offset] == token


def test_the_fold_of_a_canvas_is_its_last_pass(model: anyorder.LoadedModel) -> None:
    answer = anyorder.generate(model, [3, 5, 8], max_new_tokens=16, steps=5, stop_ids=())
    assert answer.stats.passes == 5
    assert answer.stats.blocks == 1
    assert answer.stats.revised > 0
    assert {slot.commit_pass for slot in answer.trace} == {4}


@pytest.mark.parametrize("length", range(1, 10))
def test_every_alignment_of_a_prompt_measures_no_drift(model: anyorder.LoadedModel, length: int) -> None:
    """The window of sliding layers is 6 wide, a canvas 16; the last one reaches beyond the answer."""
    answer = anyorder.generate(
        model, [3, 5, 8] * 6 + [9] * length, max_new_tokens=20, steps=3, stop_ids=(), measure_drift=True
    )
    drift = answer.stats.drift_max
    assert drift is not None
    assert drift < TOLERANCE
    assert len(answer.ids) == 20


def test_the_likeliest_tokens_are_those_of_the_last_pass(model: anyorder.LoadedModel) -> None:
    """Of the distribution that the text is the best of: scaled and cut."""
    ask: dict[str, Any] = {"max_new_tokens": 20, "steps": 5, "stop_ids": (), "temperature": 2.0, "top_k": 3}
    plain, told = anyorder.generate(model, [3, 5, 8], **ask), anyorder.generate(model, [3, 5, 8], **ask, top_logprobs=5)
    assert plain.ids == told.ids
    for before, slot in zip(plain.trace, told.trace, strict=True):
        assert (before.id, before.confidence, before.commit_pass) == (slot.id, slot.confidence, slot.commit_pass)
        assert len(slot.alternatives) == 3  # what top_k has cut is not likely, it is impossible
        assert (slot.alternatives[0].id, slot.alternatives[0].probability) == (slot.id, slot.confidence)
        assert sum(best.probability for best in slot.alternatives) == pytest.approx(1, abs=1e-5)


def test_samples_differ_and_can_be_had_one_by_one(model: anyorder.LoadedModel) -> None:
    ask: dict[str, Any] = {"max_new_tokens": 9, "steps": 4, "stop_ids": (), "temperature": 2.0, "top_p": 0.9}
    both = anyorder.generate_batch(model, [[3, 5]] * 2, samples=[0, 1], **ask)
    assert both[0].ids != both[1].ids
    assert anyorder.generate(model, [3, 5], **ask).ids == both[0].ids


def test_a_token_that_is_banned_or_biased_away_is_not_in_the_text(model: anyorder.LoadedModel) -> None:
    ask: dict[str, Any] = {"max_new_tokens": 20, "steps": 4, "stop_ids": ()}
    plain = anyorder.generate(model, [3, 5], **ask)
    gone = plain.ids[0]
    assert gone not in anyorder.generate(model, [3, 5], banned_ids=(gone,), **ask).ids
    assert gone not in anyorder.generate(model, [3, 5], logit_bias={gone: -100.0}, **ask).ids


def test_a_stop_token_ends_the_text_where_it_stands_first(model: anyorder.LoadedModel) -> None:
    ask: dict[str, Any] = {"max_new_tokens": 20, "steps": 4}
    plain = anyorder.generate(model, [3, 5], stop_ids=(), **ask)
    stop = plain.ids[3]
    ended = anyorder.generate(model, [3, 5], stop_ids=(stop,), **ask)
    assert (ended.ids, ended.finish_reason) == (plain.ids[: plain.ids.index(stop)], "stop")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"threshold": 0.9}, "`threshold` is not supported where a canvas of noise is cleaned"),
        ({"cfg_scale": 1.0}, "`cfg_scale` is not supported"),
        ({"draft": "ngram"}, "`draft` belongs to mode 'causal', got mode 'block'"),
        ({"measure_drift": True, "cache": "none"}, "`measure_drift` compares a cache with none"),
        ({"max_new_tokens": 0}, "there is nothing to decode"),
        ({"temperature": 0.5, "t_max": 0.8}, "`temperature` 0.5 is that of every pass, which `t_max` denies; drop one"),
        ({"policy": "low_confidence"}, "by policy 'renoise', got 'low_confidence'"),
        ({"mode": "full"}, "cannot decode in mode 'full'"),
        ({"mode": "causal", "t_min": 0.5}, "`t_min` is about canvases of noise"),
        ({"t_min": 0.9, "t_max": 0.5}, "`t_min` 0.9 is above `t_max` 0.5"),
    ],
)
def test_what_noise_cannot_have_is_refused(model: anyorder.LoadedModel, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        anyorder.generate(model, [3], **changes)


def test_holes_are_refused(model: anyorder.LoadedModel) -> None:
    with pytest.raises(ParameterError, match="cannot fill holes"):
        anyorder.generate(model, [3, anyorder.Hole(2), 4])


@pytest.mark.parametrize(
    "changes",
    [{"attention_bias": True}, {"hidden_activation": "silu"}, {"use_bidirectional_attention": "all"}],
)
def test_settings_that_are_not_supported_are_named(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config(**changes)), "utf-8")
    with pytest.raises(ModelError, match=next(iter(changes))):
        anyorder.load(tmp_path)


@pytest.mark.parametrize("changes", [{}, {"num_global_key_value_heads": None}, {"global_head_dim": 64}])
def test_a_checkpoint_that_transformers_saved_is_read(changes: dict[str, Any], tmp_path: Path) -> None:
    """It writes the sizes of full layers in another way than the published config.json does."""
    raw = config(**changes)
    theirs(raw, 0).save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text("utf-8"))
    assert "per_layer_config" in saved["text_config"]
    assert anyorder.load(tmp_path / "saved", dtype="float32").config == recognise(raw).parse(raw)


@pytest.mark.parametrize("layers", [3, 7])
@pytest.mark.parametrize("kinds", [None, ["full_attention", "sliding_attention", "sliding_attention"]])
def test_the_last_layer_sees_everything(layers: int, kinds: list[str] | None) -> None:
    if kinds is not None:
        layers = len(kinds)
    raw = config(num_hidden_layers=layers, layer_types=kinds)
    expected = transformers.DiffusionGemmaConfig(**raw).text_config.layer_types
    found = recognise(raw).parse(raw)
    assert [found.sliding_window(layer) is None for layer in range(layers)] == [
        kind == "full_attention" for kind in expected
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        {"0": {"head_dim": 32}},
        {"2": {"head_dim": 32, "rms_norm_eps": 1e-5}},
        {"1": {"head_dim": 8}, "2": {"head_dim": 9}},
    ],
)
def test_layers_of_other_sizes_are_refused(sizes: dict[str, Any]) -> None:
    full = ["full_attention" if str(layer) in sizes or layer == 2 else "sliding_attention" for layer in range(3)]
    raw = config(per_layer_config=sizes, layer_types=full if len(sizes) > 1 else None)
    with pytest.raises(ModelError, match="per_layer_config"):
        recognise(raw).parse(raw)
