"""DiffusionGemma's image input against transformers' own, on small random configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image as Pil
from tests.models.pictures import BEGIN, CUT, END, SLOT, painted, raw_config, write
from tests.models.test_gemma import CANVAS, TOLERANCE
from tests.models.test_gemma_generate import EXACT, PAD, Case, Recording, Replayed, in_float64, listen, up_to_a_stop
from torch import Tensor

import anyorder
from anyorder.canvas import Canvas, Part
from anyorder.models.gemma.vision import PUBLISHED, parse_vision, vision_shapes
from anyorder.pictures import Picture
from anyorder.prompt import encode_prompt
from anyorder.runner import Runner
from anyorder.window import Window

transformers = pytest.importorskip("transformers")
generation = pytest.importorskip("transformers.models.diffusion_gemma.generation_diffusion_gemma")

VISION: dict[str, dict[str, Any]] = {
    "published shape": {},
    "standardised": {"standardize": True},
    "clipped": {"use_clipped_linears": True},
    "several layers, one key head": {"num_hidden_layers": 3, "num_key_value_heads": 1},
}


PROMPTS: dict[str, list[Any]] = {
    "one image": [5, 6, painted(40, 40), 7, 8],
    "it comes first": [painted(90, 30, 1), 7],
    "two of different sizes": [5, painted(100, 20, 2), 7, painted(16, 90, 3), 8, 9, 10],
    "side by side": [painted(64, 64, 4), painted(64, 64, 5), 11],
}


def encoded(model: anyorder.LoadedModel, prompt: list[Any]) -> list[Part]:
    return encode_prompt(model, [part if isinstance(part, int) else anyorder.Image(part) for part in prompt])


def published(prompt: list[Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """What transformers' processor makes of it: ids [1, T] and what `generate` takes besides."""
    processor = transformers.Gemma4ImageProcessorPil(**CUT)
    made = processor([part for part in prompt if not isinstance(part, int)], return_tensors="pt")
    lengths = iter(made["num_soft_tokens_per_image"])
    ids = [
        t for part in prompt for t in ([part] if isinstance(part, int) else [BEGIN, *[SLOT] * int(next(lengths)), END])
    ]
    row = torch.tensor([ids])
    return row, {
        "pixel_values": made["pixel_values"],
        "image_position_ids": made["image_position_ids"],
        "mm_token_type_ids": (row == SLOT).long(),
    }


def encoder_logits(reference: Any, ids: Tensor, images: dict[str, Tensor]) -> tuple[Tensor, Any]:
    """[T, V] and the cache; the masks are made as `generate` makes them, `forward` itself forgets its own."""
    encoder, length = reference.model.encoder, ids.shape[1]
    masks = encoder.create_masks_for_generate(
        config=reference.config,
        inputs_embeds=torch.empty(1, length, 0),
        attention_mask=torch.ones(1, length, dtype=torch.bool),
        cache=None,
        position_ids=torch.arange(length)[None],
        mm_token_type_ids=images["mm_token_type_ids"],
    )
    read = {name: images[name] for name in ("pixel_values", "image_position_ids")}
    output = encoder(input_ids=ids, attention_mask=masks, **read)
    return (reference.lm_head(output.last_hidden_state[0]) / 30).tanh() * 30, output.cache


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("vision", VISION.values(), ids=VISION.keys())
@torch.inference_mode()
def test_logits_are_those_of_transformers(vision: dict[str, Any], prompt: list[Any], tmp_path: Path) -> None:
    """In the causal mode and of a canvas behind it; an image takes more columns than a sliding layer sees."""
    reference = write(tmp_path, vision)
    model = anyorder.load(tmp_path, dtype="float32")
    ids, images = published(prompt)
    parts = encoded(model, prompt)
    canvas = Canvas.from_prompt(parts, mask_id=-1)
    text, pictures = canvas.ids, canvas.pictures
    assert text.tolist() == ids[0].tolist()
    assert min(p.picture.length for p in pictures) > 6, "the window is wider than an image"
    expected, cache = encoder_logits(reference, ids, images)
    length = len(text)
    window = Window(
        ids=text, start=0, visible=length, rows=torch.arange(length), attention="causal", stores=False,
        pictures=pictures,
    )  # fmt: skip
    (found,) = Runner(model.network).forward([window], [None])
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)

    noise = torch.randint(90, (1, CANVAS), generator=torch.Generator().manual_seed(5))
    behind = reference(decoder_input_ids=noise, cache=cache).logits[0]
    window = Window(
        ids=torch.cat([text, noise[0]]), start=0, visible=length + CANVAS, rows=torch.arange(length, length + CANVAS),
        attention="causal", adapted=length, stores=False, pictures=pictures,
    )  # fmt: skip
    (found,) = Runner(model.network).forward([window], [None])
    torch.testing.assert_close(found, behind, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("vision", VISION.values(), ids=VISION.keys())
def test_the_tensors_of_the_tower_are_known_without_it(vision: dict[str, Any]) -> None:
    """Names and shapes follow from config.json; a tower is loaded and counted by them."""
    raw = raw_config(vision)
    model = transformers.DiffusionGemmaForBlockDiffusion(transformers.DiffusionGemmaConfig(**raw))
    theirs = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if name.startswith(PUBLISHED)}
    parsed = parse_vision(raw)
    assert parsed is not None
    assert vision_shapes(parsed, 48) == theirs


@torch.inference_mode()
def test_pictures_are_what_transformers_makes_of_images(tmp_path: Path) -> None:
    """Also in a checkpoint whose vision_config names another dtype than the one asked for."""
    reference = write(tmp_path, {"dtype": "bfloat16"}).float()
    model = anyorder.load(tmp_path, dtype="float32")
    transparent = painted(50, 70, 3)
    transparent.putalpha(Pil.new("L", (50, 70), 90))
    for image in (painted(33, 57), painted(600, 40, 2), transparent):
        made = transformers.Gemma4ImageProcessorPil(**CUT)([image], return_tensors="pt")
        (_, picture, _) = encoded(model, [image])
        assert isinstance(picture, Picture)
        assert picture.length == int(made["num_soft_tokens_per_image"][0])
        assert torch.equal(picture.pixels, made["pixel_values"][0])
        features = reference.model.encoder.get_image_features(made["pixel_values"], made["image_position_ids"])
        vectors = model.network.read(picture)  # type: ignore[attr-defined]
        torch.testing.assert_close(vectors, features.pooler_output, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["one image", "two of different sizes"])
def test_every_pass_of_generate_is_the_one_of_transformers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(steps=8, confidence=1e-3)
    ids, images = published(PROMPTS[name])
    recording = Recording()
    with in_float64() as patch:
        patch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: None)  # imports the whole compiler
        recording.attach(patch)
        model = write(tmp_path, {"dtype": "float64"}).double()
        model.set_experts_implementation("eager")  # the grouped product knows no float64
        torch.manual_seed(0)
        output = model.generate(
            ids, **{key: value.double() if value.is_floating_point() else value for key, value in images.items()},
            max_new_tokens=case.new_tokens, max_denoising_steps=case.steps, t_min=case.t_min, t_max=case.t_max,
            stability_threshold=case.stability, confidence_threshold=case.confidence,
            sampler_config=generation.EntropyBoundSamplerConfig(entropy_bound=case.bound),
            eos_token_id=list(case.stops), pad_token_id=PAD, return_dict_in_generate=True,
        )  # fmt: skip
        run = [step for canvas in recording.row(0, case.stops) for step in canvas]
        begun, length = [noise[0].tolist() for noise in recording.begun], ids.shape[1]
        monkeypatch.setattr(
            "anyorder.request.choosing.Draws", lambda *_: Replayed(begun=begun, passes=run, first=length)
        )
        heard = listen(monkeypatch, 1)[0]
        loaded = anyorder.load(tmp_path, dtype="float64", pack=False)
        answer = anyorder.generate(
            loaded, encoded(loaded, PROMPTS[name]), max_new_tokens=case.new_tokens, steps=case.steps,
            entropy_bound=case.bound, t_min=case.t_min, t_max=case.t_max, stability_threshold=case.stability,
            confidence_threshold=case.confidence, stop_ids=case.stops,
        )  # fmt: skip
    assert len(run) > case.steps, "the run is one canvas long"
    assert len(heard) == len(run)
    for ours, expected in zip(heard, run, strict=True):
        assert (ours.canvas, ours.accepted, ours.best) == (expected.canvas, expected.accepted, expected.best)
        torch.testing.assert_close(ours.entropy, expected.entropy, atol=EXACT, rtol=0)
    text = output.sequences[0, length:].tolist()
    assert list(answer.ids) == up_to_a_stop(text[: case.new_tokens], case.stops)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> anyorder.LoadedModel:
    folder = tmp_path_factory.mktemp("images")
    write(folder)
    return anyorder.load(folder, dtype="float64")


@pytest.mark.parametrize(
    "changes",
    [{"steps": 5}, {"mode": "causal"}, {"mode": "causal", "draft": "lookup"}, {"mode": "causal", "draft": "ngram"}],
    ids=["canvas", "causal", "lookup", "ngram"],
)
def test_cache_and_company_change_nothing(model: anyorder.LoadedModel, changes: dict[str, Any]) -> None:
    """Text and images in one batch; what is stored is what would be computed."""
    changes = {"max_new_tokens": 19, "stop_ids": (), "measure_drift": changes.get("draft") is None} | changes
    prompts = [encoded(model, prompt) for prompt in PROMPTS.values()] + [[3, 5, 8]]
    alone = [anyorder.generate(model, prompt, **changes) for prompt in prompts]
    plain: dict[str, Any] = changes | {"cache": "none", "draft": "none", "measure_drift": False}
    bare = [anyorder.generate(model, prompt, **plain) for prompt in prompts]
    together = anyorder.generate_batch(model, prompts, **changes)
    assert [a.ids for a in alone] == [a.ids for a in bare] == [a.ids for a in together]
    if changes["measure_drift"]:
        assert max(a.stats.drift_max or 0.0 for a in alone) < 1e-9


def test_the_tower_runs_once_for_a_picture(model: anyorder.LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    network = type(model.network)
    original = network.read  # type: ignore[attr-defined]
    monkeypatch.setattr(network, "read", lambda own, picture: read.append(picture.length) or original(own, picture))
    anyorder.generate(model, encoded(model, PROMPTS["side by side"]), max_new_tokens=20, steps=4, cache="none")
    assert len(read) == 2


def test_what_is_in_an_image_matters(model: anyorder.LoadedModel) -> None:
    """Guards against vectors that are never fed: the ids of both prompts are the same."""
    red, noise = ([5, Pil.new("RGB", (40, 40), "red"), 7], [5, painted(40, 40), 7])
    answers = [
        anyorder.generate(model, encoded(model, prompt), mode="causal", max_new_tokens=12) for prompt in (red, noise)
    ]
    assert answers[0].ids != answers[1].ids


@pytest.mark.parametrize("options", [{"dtype": "bfloat16"}, {"dtype": "float32", "quantize": "int8"}], ids=str)
def test_the_tower_is_whole_where_the_rest_is_rounded(options: dict[str, Any], tmp_path: Path) -> None:
    """Of few bits or of few digits, the network reads the same vectors up to what its dtype rounds."""
    write(tmp_path)
    exact, rounded = anyorder.load(tmp_path, dtype="float32"), anyorder.load(tmp_path, **options)
    prompt = encoded(exact, PROMPTS["one image"])
    (picture,) = (part for part in prompt if isinstance(part, Picture))
    with torch.inference_mode():
        vectors, near = (model.network.read(picture) for model in (exact, rounded))  # type: ignore[attr-defined]
    assert near.dtype == rounded.dtype
    torch.testing.assert_close(near.float(), vectors, atol=0.0 if "quantize" in options else 0.2, rtol=0)
    assert len(anyorder.generate(rounded, prompt, max_new_tokens=9, steps=2, stop_ids=()).ids) == 9
