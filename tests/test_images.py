"""Images in prompts: where they may stand, what becomes of them, and what is refused."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Pil
from PIL import ImageOps
from safetensors.torch import load_file, save_file
from tests.engine.tiny import tiny
from tests.models.pictures import SPELT, painted, write_talking
from tests.models.tiny_models import BYTES

import anyorder
from anyorder.errors import ModelError, ParameterError, WeightsError
from anyorder.models.gemma.vision import PUBLISHED
from anyorder.pictures import Picture
from anyorder.prompt import encode_prompt

BEGIN, END, SLOT = BYTES, BYTES + 1, BYTES + 2
pytest.importorskip("transformers.models.diffusion_gemma")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("talking")
    write_talking(folder)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> anyorder.LoadedModel:
    return anyorder.load(folder, dtype="float32")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    painted(40, 30).save(tmp_path / "cat.png")
    return tmp_path / "cat.png"


def shape(parts: list[Any]) -> list[Any]:
    """Pictures as their lengths, in words."""
    return [f"{part.length} slots" if isinstance(part, Picture) else part for part in parts]


def asked(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_every_kind_of_source_is_the_same_picture(model: anyorder.LoadedModel, file: Path) -> None:
    sources = [file, str(file), file.read_bytes(), Pil.open(file)]
    parts = [encode_prompt(model, ["a", anyorder.Image(source), "b"]) for source in sources]
    pictures = [part for row in parts for part in row if isinstance(part, Picture)]
    assert len(pictures) == 4
    assert len({tuple(picture.keys) for picture in pictures}) == 1
    assert shape(parts[0])[1:-1] == [BEGIN, f"{pictures[0].length} slots", END]


def test_a_photo_is_turned_as_its_camera_says(tmp_path: Path) -> None:
    exif = Pil.Exif()
    exif[0x0112] = 6  # a quarter turn
    painted(40, 20).save(tmp_path / "photo.jpg", exif=exif)
    assert anyorder.Image(tmp_path / "photo.jpg").read().size == (20, 40)


@pytest.mark.parametrize("orientation", range(10))
def test_every_turn_is_pillows_own(orientation: int) -> None:
    exif = Pil.Exif()
    exif[0x0112] = orientation
    file = BytesIO()
    painted(12, 7).save(file, "PNG", exif=exif)
    ours, theirs = anyorder.Image(file.getvalue()).read(), ImageOps.exif_transpose(Pil.open(file))
    assert (ours.size, ours.tobytes()) == (theirs.size, theirs.tobytes())


@pytest.mark.parametrize("tag", [0x0100, 0x011B])  # they hold numbers
def test_a_damaged_tag_of_a_photo_is_no_reason_to_fail(tag: int) -> None:
    """Guards against tags that are written anew when the image is turned: `struct.error` and `TypeError` came of it."""
    exif = Pil.Exif()
    exif[0x0112], exif[0x010E] = 6, "a photo"
    file = BytesIO()
    painted(40, 20).save(file, "JPEG", exif=exif)
    damaged = file.getvalue().replace(b"\x01\x0e\0\2", tag.to_bytes(2) + b"\0\2")
    with pytest.raises((struct.error, TypeError)):
        ImageOps.exif_transpose(Pil.open(BytesIO(damaged)))
    assert anyorder.Image(damaged).read().size == (20, 40)


class Stumbling(Pil.Image):
    """An image whose reader has a bug."""

    def __init__(self) -> None:
        super().__init__()
        self._mode, self._size = "RGB", (4, 4)

    def load(self) -> Any:
        raise struct.error("required argument is not an integer")


def test_whatever_a_reader_stumbles_over_is_told_of_the_image() -> None:
    with pytest.raises(ParameterError, match="an image cannot be read as an image: required argument"):
        anyorder.Image(Stumbling()).read()


@pytest.mark.parametrize("name", ["GIF", "TIFF", "WEBP", "BMP", "PNG"])
def test_the_first_frame_of_every_format_is_read(tmp_path: Path, name: str) -> None:
    """And the file is closed behind it."""
    path = tmp_path / f"cat.{name.lower()}"
    more = {"save_all": True, "append_images": [painted(24, 12, 1)]} if name in ("GIF", "TIFF", "WEBP") else {}
    Pil.new("RGB", (24, 12), "teal").save(path, name, **more)
    bands = anyorder.Image(path).read().split()
    red, green, blue = (band.tobytes()[5 * 24 + 5] for band in bands)
    assert red < 20 < 100 < min(green, blue)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "YCbCr", "RGBA"])
def test_every_kind_of_pixel_is_read(model: anyorder.LoadedModel, mode: str) -> None:
    parts = encode_prompt(model, ["a", anyorder.Image(Pil.new(mode, (30, 30)))])
    assert sum(isinstance(part, Picture) for part in parts) == 1


def test_a_chat_places_images_where_its_template_says(model: anyorder.LoadedModel, file: Path) -> None:
    plain = encode_prompt(model, asked(text("see"), text("this")))
    other = painted(20, 60, 3)
    mixed = encode_prompt(
        model, asked(text("see"), {"type": "image", "image": file}, text("and"), {"type": "image", "image": other})
    )
    first, second = (part for part in mixed if isinstance(part, Picture))
    assert first.keys != second.keys
    assert mixed.count(BEGIN) == mixed.count(END) == 2
    assert not any(isinstance(part, Picture) for part in plain)
    assert SLOT not in mixed
    tokenizer = model.tokenizer
    assert tokenizer is not None
    said = tokenizer.decode([part for part in mixed if isinstance(part, int)], skip_special=False)
    assert said == "<|turn>user\nsee<|image><image|>and<|image><image|><turn|>\n<|turn>model\n"


@pytest.mark.parametrize("spelt", SPELT)
def test_who_spells_an_image_token_gets_none(model: anyorder.LoadedModel, file: Path, spelt: str) -> None:
    """Guards against a text that takes the place of an image, or moves the others."""
    hostile = encode_prompt(model, asked(text(f"{spelt} a {spelt}"), {"type": "image", "image": file}, text(spelt)))
    pictures = [index for index, part in enumerate(hostile) if isinstance(part, Picture)]
    assert len(pictures) == 1
    assert hostile[pictures[0] - 1] == BEGIN
    assert hostile[pictures[0] + 1] == END
    assert (hostile.count(BEGIN), hostile.count(END), hostile.count(SLOT)) == (1, 1, 0)
    listed = encode_prompt(model, [spelt, anyorder.Image(file), spelt])
    assert (listed.count(BEGIN), listed.count(END), listed.count(SLOT)) == (1, 1, 0)


def test_an_image_token_among_ids_is_a_token(model: anyorder.LoadedModel) -> None:
    assert encode_prompt(model, [5, SLOT, 6]) == [5, SLOT, 6]
    assert len(anyorder.generate(model, [5, SLOT, 6], max_new_tokens=4, steps=2, stop_ids=()).ids) == 4


def test_a_conversation_about_an_image(model: anyorder.LoadedModel, file: Path) -> None:
    """The second turn reads the stored columns of the first, pictures among them, and says what a new one would."""
    chat = anyorder.ChatSession(model, max_new_tokens=6, steps=2, temperature=0.5)
    chat.send([text("see"), {"type": "image", "image": file}]).generations()
    turn = chat.send("more")
    assert turn.engine.sequences[0].decoder.stored > 10
    again = anyorder.generate(model, turn.asked, max_new_tokens=6, steps=2, temperature=0.5)
    assert turn.generations()[0].ids == again.ids


@pytest.mark.parametrize("family", ["llada", "llama", "sdar"])
def test_a_family_that_reads_none_says_so(family: str, file: Path) -> None:
    with pytest.raises(ParameterError, match=rf"\(family {family}\) takes no image input"):
        encode_prompt(tiny(family), [5, anyorder.Image(file)])


def bomb() -> bytes:
    """A PNG of 60 bytes that claims to have a billion pixels."""
    head = struct.pack(">IIBBBBB", 40_000, 25_000, 8, 2, 0, 0, 0)
    chunks = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", b""), (b"IEND", b""))
    )
    return b"\x89PNG\r\n\x1a\n" + chunks


def truncated() -> bytes:
    buffer = BytesIO()
    painted(40, 40).save(buffer, "PNG")
    return buffer.getvalue()[:500]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: b"", "cannot be read as an image"),
        (lambda: b"GIF89a", "cannot be read as an image: formats are PNG, JPEG"),
        (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "formats are PNG, JPEG"),
        (truncated, "cannot be read as an image"),
        (bomb, "more than 64,000,000 pixels; scale it down"),
        (lambda: "nowhere.png", "there is no image at 'nowhere.png'"),
        (lambda: "https://example.org/cat.png", "not fetched from a URL"),
        (lambda: Pil.new("I;16", (30, 30)), "mode 'I;16' has more than 8 bits a colour"),
        (lambda: Pil.new("F", (30, 30)), "mode 'F' has more than 8 bits a colour"),
        (lambda: 5, "a path, bytes or a PIL image, got int"),
        (lambda: Pil.new("RGB", (9000, 1)), "cannot be cut into patches|patches long"),
    ],
)
def test_what_is_no_image_is_refused(model: anyorder.LoadedModel, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        encode_prompt(model, ["a", anyorder.Image(make())])


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"type": "image_url", "image_url": "x"}, r"messages\[0\].content\[0\] must be .* got type 'image_url'"),
        ({"type": "text", "text": 5}, "must be"),
        ({"type": "image"}, "got type 'image' with type"),
        ({"type": "image", "image": b"a", "detail": "low"}, "detail"),
        ("text", "got str"),
    ],
)
def test_parts_of_no_known_kind_are_refused(model: anyorder.LoadedModel, part: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        encode_prompt(model, asked(part))


def test_scores_are_of_text(model: anyorder.LoadedModel, file: Path) -> None:
    with pytest.raises(ParameterError, match="text with images cannot be scored"):
        anyorder.score(model, ["a", anyorder.Image(file)])


def variant(folder: Path, target: Path, change: Callable[[Path], None]) -> Path:
    shutil.copytree(folder, target)
    change(target)
    return target


def without_tower(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({n: t for n, t in tensors.items() if not n.startswith(PUBLISHED)}, folder / "model.safetensors")


def without_a_norm(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("vision_tower.encoder.layers.0.self_attn.q_norm.weight"))
    save_file({n: t for n, t in tensors.items() if n != name}, folder / "model.safetensors")


def without_processor(folder: Path) -> None:
    (folder / "processor_config.json").unlink()


def cutting_otherwise(folder: Path) -> None:
    settings = {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 16, "pooling_kernel_size": 3}
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}), "utf-8")


def test_a_checkpoint_without_a_tower_reads_text(folder: Path, tmp_path: Path, file: Path) -> None:
    model = anyorder.load(variant(folder, tmp_path / "text", without_tower), dtype="float32")
    assert anyorder.generate(model, "a", max_new_tokens=3, steps=2).ids
    with pytest.raises(ModelError, match=r"needs a vision tower.*family diffusion_gemma.*without one"):
        encode_prompt(model, ["a", anyorder.Image(file)])


def test_half_a_tower_is_no_checkpoint(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"q_norm.weight missing"):
        anyorder.load(variant(folder, tmp_path / "half", without_a_norm))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_processor, r"image input needs its processor_config.json \(or preprocessor_config.json\)"),
        (cutting_otherwise, "cuts patches of 16 and pools 3, its vision tower needs 4 and 2"),
    ],
)
def test_what_image_input_lacks_is_named(
    folder: Path, tmp_path: Path, file: Path, change: Callable[[Path], None], message: str
) -> None:
    model = anyorder.load(variant(folder, tmp_path / "other", change), dtype="float32")
    assert encode_prompt(model, "a")
    with pytest.raises(ModelError, match=message):
        encode_prompt(model, ["a", anyorder.Image(file)])


def test_older_checkpoints_keep_the_settings_alone(folder: Path, tmp_path: Path, file: Path) -> None:
    def renamed(folder: Path) -> None:
        settings = json.loads((folder / "processor_config.json").read_text("utf-8"))["image_processor"]
        (folder / "processor_config.json").write_text("{}", "utf-8")
        (folder / "preprocessor_config.json").write_text(json.dumps(settings), "utf-8")

    model = anyorder.load(variant(folder, tmp_path / "older", renamed), dtype="float32")
    assert any(isinstance(part, Picture) for part in encode_prompt(model, ["a", anyorder.Image(file)]))
