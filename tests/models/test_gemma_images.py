"""DiffusionGemma's image input against transformers' own, on small random configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_gemma import CANVAS, TOLERANCE, config, theirs
from torch import Tensor

import anyorder
from anyorder.canvas import Part
from anyorder.pictures import Placed
from anyorder.prompt import encode_prompt
from anyorder.runner import Runner
from anyorder.window import Window

Pil = pytest.importorskip("PIL.Image")
transformers = pytest.importorskip("transformers")
generation = pytest.importorskip("transformers.models.diffusion_gemma.generation_diffusion_gemma")

BEGIN, END, SLOT = 91, 92, 93
CUT = {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}
VISION: dict[str, dict[str, Any]] = {
    "published shape": {},
    "standardised": {"standardize": True},
    "clipped": {"use_clipped_linears": True},
    "several layers, one key head": {"num_hidden_layers": 3, "num_key_value_heads": 1},
}


def painted(width: int, height: int, seed: int = 0) -> Any:
    """An image of smooth noise."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (height, width, 3), generator=generator, dtype=torch.uint8)
    return Pil.fromarray(pixels.numpy())


def raw_config(vision: dict[str, Any], **changes: Any) -> dict[str, Any]:
    raw = config(**changes)
    raw["vision_config"] |= {"position_embedding_size": 80, "dtype": "float32"} | vision
    return raw


def write(folder: Path, vision: dict[str, Any] | None = None, *, seed: int = 0, **changes: Any) -> Any:
    """A checkpoint that reads images; the model of transformers that it is."""
    raw = raw_config(vision or {}, **changes)
    reference = theirs(raw, seed)
    for name, tensor in reference.named_buffers():
        if name.endswith(("put_min", "put_max")):
            tensor.data.fill_(-1.5 if name.endswith("min") else 1.5)
    reference.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    settings = {"image_processor_type": "Gemma4ImageProcessor", **CUT}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}), "utf-8")
    return reference


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


def placed(prompt: list[Part]) -> tuple[Tensor, tuple[Placed, ...]]:
    canvas = anyorder.canvas.Canvas.from_prompt(prompt, mask_id=-1)  # type: ignore[attr-defined]
    return canvas.ids, canvas.pictures


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("vision", VISION.values(), ids=VISION.keys())
@torch.inference_mode()
def test_logits_are_those_of_transformers(vision: dict[str, Any], prompt: list[Any], tmp_path: Path) -> None:
    """In the causal mode and of a canvas behind it; an image takes more columns than a sliding layer sees."""
    reference = write(tmp_path, vision)
    model = anyorder.load(tmp_path, dtype="float32")
    ids, images = published(prompt)
    parts = encoded(model, prompt)
    text, pictures = placed(parts)
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
