"""From an image to the patches that the vision tower reads, by transformers' own Gemma 4 image processor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.errors import ModelError, ParameterError
from anyorder.models.gemma.vision import VisionConfig
from anyorder.models.load.folder import read_table
from anyorder.pictures import Picture, digest_of

if TYPE_CHECKING:
    from PIL.Image import Image
    from transformers import Gemma4ImageProcessorPil

FILES = ("processor_config.json", "preprocessor_config.json")
"""Where a checkpoint says how its images are cut; the first names it under `image_processor`."""
KNOWN = (
    "do_convert_rgb", "do_normalize", "do_rescale", "do_resize", "image_mean", "image_std", "max_soft_tokens",
    "patch_size", "pooling_kernel_size", "resample", "rescale_factor",
)  # fmt: skip


@dataclass(frozen=True)
class ImageReader:
    """Reads images for one checkpoint.

    Args:
        folder: of the checkpoint.
    """

    folder: Path
    config: VisionConfig

    def read(self, image: Image) -> Picture:
        """The picture of an RGB or RGBA image; what is transparent is white.

        Raises:
            ModelError: the checkpoint does not say how images are cut, or not as its vision tower needs it.
            ParameterError: the image is too narrow to be cut.
        """
        try:
            made = self._processor([image], return_tensors="pt")
        except ValueError as error:
            size = f"{image.width} x {image.height}"
            raise ParameterError(f"an image of {size} cannot be cut into patches: {error}", param="prompt") from None
        pixels, positions = made["pixel_values"][0], made["image_position_ids"][0]
        if int(positions.max()) >= self.config.max_side:
            raise ParameterError(
                f"an image of {image.width} x {image.height} is {int(positions.max()) + 1} patches long; the vision "
                f"tower knows {self.config.max_side}: crop it",
                param="prompt",
            )
        return Picture(
            length=int(made["num_soft_tokens_per_image"][0]),
            token_id=self.config.image_id,
            pixels=pixels,
            positions=positions,
            digest=digest_of(pixels, positions),
        )

    @cached_property
    def _processor(self) -> Gemma4ImageProcessorPil:
        from transformers import Gemma4ImageProcessorPil

        settings = self._settings()
        try:
            processor = Gemma4ImageProcessorPil(**settings)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.folder}: transformers refuses its image processor: {error}") from None
        cut, needed = (
            (processor.patch_size, processor.pooling_kernel_size),
            (self.config.patch_size, self.config.pooling),
        )
        if cut != needed:
            raise ModelError(
                f"{self.folder}: its image processor cuts patches of {cut[0]} and pools {cut[1]}, its vision tower "
                f"needs {needed[0]} and {needed[1]}; correct {' or '.join(FILES)}"
            )
        return processor

    def _settings(self) -> dict[str, Any]:
        """Those of the image processor; others of the file mean nothing to it."""
        for name in FILES:
            table = read_table(self.folder / name)
            found = table.get("image_processor", table if "image_processor_type" in table else None)
            if isinstance(found, dict):
                return {key: value for key, value in found.items() if key in KNOWN}
        raise ModelError(
            f"{self.folder} does not say how images are cut: image input needs its {FILES[0]} (or {FILES[1]}); "
            "download it again with all its JSON files"
        )
