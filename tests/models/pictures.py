"""Images, and small random checkpoints of DiffusionGemma that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image as Pil
from tests.models.test_gemma import config, theirs
from tests.models.tiny_models import BYTES, write_bpe

BEGIN, END, SLOT = 91, 92, 93
CUT = {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}
SPELT = ("<|image>", "<image|>", "<|image|>")
"""Begin, end, slot, in a checkpoint that talks."""
TEMPLATE = (
    "{% for message in messages %}{{ '<|turn>' + message.role + '\n' }}{% if message.content is string %}"
    "{{ message.content | trim }}{% else %}{% for part in message.content %}{% if part.type == 'image' %}"
    "{{ '<|image|>' }}{% else %}{{ part.text | trim }}{% endif %}{% endfor %}{% endif %}{{ '<turn|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn>model\n' }}{% endif %}"
)


def painted(width: int, height: int, seed: int = 0) -> Pil.Image:
    """An image of noise."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (height, width, 3), generator=generator, dtype=torch.uint8)
    return Pil.fromarray(pixels.numpy())


def raw_config(vision: dict[str, Any], **changes: Any) -> dict[str, Any]:
    raw = config(**changes)
    raw["vision_config"] |= {"position_embedding_size": 80, "dtype": "float32"} | vision
    return raw


def write(folder: Path, vision: dict[str, Any] | None = None, *, seed: int = 0, **changes: Any) -> Any:
    """A checkpoint that reads images; the model of transformers that it is."""
    return write_raw(folder, raw_config(vision or {}, **changes), seed=seed)


def write_raw(folder: Path, raw: dict[str, Any], *, seed: int = 0) -> Any:
    reference = theirs(raw, seed)
    for name, tensor in reference.named_buffers():
        if name.endswith(("put_min", "put_max")):
            tensor.data.fill_(-1.5 if name.endswith("min") else 1.5)
    reference.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    settings = {"image_processor_type": "Gemma4ImageProcessor", **CUT}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}), "utf-8")
    return reference


def write_talking(folder: Path) -> None:
    """A checkpoint that reads images and has a tokenizer with a chat template."""
    begin, end, slot = BYTES, BYTES + 1, BYTES + 2
    raw = raw_config({}, vocab_size=BYTES + 8)
    write_raw(folder, raw | {"boi_token_id": begin, "eoi_token_id": end, "image_token_id": slot})
    added = [{"content": text, "special": True} for text in (*SPELT, "<|turn>", "<turn|>")]
    write_bpe(folder, added, template=TEMPLATE)
