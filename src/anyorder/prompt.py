"""From what a caller may pass as a prompt to token ids and holes, with everything the caller wrote kept as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from anyorder.canvas import Hole, Part
from anyorder.errors import ModelError, ParameterError
from anyorder.images import Image, split_content
from anyorder.pictures import Picture

if TYPE_CHECKING:
    from anyorder.models.chat import TemplateInputs
    from anyorder.models.loaded import LoadedModel

Message = Mapping[str, Any]
Prompt = str | Sequence[int | str | Hole | Image | Picture] | Sequence[Message]
"""Text to continue; token ids, text, holes and images, read or not, in a row; or chat messages."""


def encode_prompt(model: LoadedModel, prompt: Prompt, inputs: TemplateInputs | None = None) -> list[Part]:
    """Token ids, holes and pictures of a prompt.

    Text never becomes a control or mask token, whatever it says; only `Hole` marks slots to fill. At the beginning of
    plain text stands what the tokenizer puts there by itself: a BOS token, or nothing. Token ids are taken as they are:
    a mask id among them is a given token, not a hole, and an image token is no image.

    Args:
        inputs: tools and variables for the chat template, if the prompt is messages.
    Raises:
        ParameterError: the prompt is empty and the model was not trained to write without one, it is of no known kind,
            holds an id outside the vocabulary, an image that cannot be read, or any for a model that reads none.
        ModelError: text was given and the model has no tokenizer; or the checkpoint lacks what image input needs.
    """
    if isinstance(prompt, bytes) or not isinstance(prompt, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        _refuse_kind(prompt)
    if not prompt:
        return _unprompted(model)
    if isinstance(prompt, str):
        parts: list[Part] = [*_tokenizer(model).encode_text(prompt, bos=True)]
    elif is_chat(prompt):
        parts = _encode_chat(model, [dict(m) for m in prompt if isinstance(m, Mapping)], inputs)
    else:
        parts = [piece for index, part in enumerate(prompt) for piece in _encode_part(model, part, first=index == 0)]
    if not parts:
        _refuse_empty()
    _check_ids(model, parts)
    return parts


def is_chat(prompt: Prompt) -> bool:
    """Is this a list of messages?"""
    return not isinstance(prompt, str) and bool(prompt) and all(isinstance(part, Mapping) for part in prompt)


def strip_padding(rows: Sequence[Sequence[int]], attention_mask: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows of a left-padded batch without their padding: requests are packed here, not padded.

    Args:
        rows: token ids, all rows equally long.
        attention_mask: of the same shape; 0 for padding, 1 for text, zeros only on the left.
    Raises:
        ParameterError: the shapes differ, or a mask is anything else than zeros followed by ones.
    """
    widths = [len(mask) if isinstance(mask, Sequence) else None for mask in attention_mask]  # pyright: ignore[reportUnnecessaryIsInstance]
    if [len(row) for row in rows] != widths:
        raise ParameterError("`attention_mask` must have the shape of the token ids", param="attention_mask")
    stripped: list[list[int]] = []
    for index, (row, mask) in enumerate(zip(rows, attention_mask, strict=True)):
        padding = next((column for column, flag in enumerate(mask) if flag == 1), len(mask))
        if list(mask) != [0] * padding + [1] * (len(mask) - padding):
            raise ParameterError(
                f"row {index} of `attention_mask` is not zeros followed by ones; pad on the left or not at all",
                param="attention_mask",
            )
        stripped.append(list(row[padding:]))
    return stripped


def _unprompted(model: LoadedModel) -> list[Part]:
    """What a model that writes without a prompt begins with."""
    if model.spec.unprompted == "no":
        _refuse_empty()
    if model.spec.unprompted == "nothing":
        return []
    tokenizer = _tokenizer(model)
    token = tokenizer.token_id(tokenizer.bos or tokenizer.eos or "")
    if token is None:
        raise ModelError(f"{model.source} begins a text with a BOS token, and its tokenizer names none; pass token ids")
    return [token]


def _encode_chat(model: LoadedModel, messages: list[dict[str, Any]], inputs: TemplateInputs | None) -> list[Part]:
    images: list[Image] = []
    for number, message in enumerate(messages):
        if isinstance(content := message.get("content"), list | tuple):
            parts, own = split_content(content, f"messages[{number}].content")
            message["content"] = parts if own else "\n".join(part["text"] for part in parts)
            images += own
    pictures = [_picture(model, image) for image in images]
    tokenizer = _tokenizer(model)
    ids = tokenizer.encode_chat(messages) if inputs is None else tokenizer.encode_chat(messages, inputs=inputs)
    return _with_pictures(model, ids, pictures) if pictures else [*ids]


def _with_pictures(model: LoadedModel, ids: Sequence[int], pictures: list[Picture]) -> list[Part]:
    """The ids of a conversation, each image token replaced: only the template can have written it."""
    assert model.images is not None
    image_id = model.images.config.image_id
    if not _tokenizer(model).is_control(image_id):
        raise ModelError(f"{model.source}: token {image_id}, which stands for an image, is a word of its tokenizer")
    if (places := list(ids).count(image_id)) != len(pictures):
        raise ModelError(f"the chat template of {model.source} makes {places} places for {len(pictures)} images")
    waiting = iter(pictures)
    return [part for token in ids for part in (_between(model, next(waiting)) if token == image_id else [token])]


def _picture(model: LoadedModel, image: Image) -> Picture:
    if model.images is None and model.spec.image_shapes is None:
        raise ParameterError(
            f"{model.source} (family {model.spec.name}) takes no image input; give it text", param="image"
        )
    if model.images is None:
        raise ModelError(
            f"image input needs a vision tower, and {model.source} (family {model.spec.name}) was loaded without one: "
            "its config.json has no vision_config, or its weights hold none"
        )
    return model.images.read(image.read())


def _between(model: LoadedModel, picture: Picture) -> list[Part]:
    """A picture between the tokens that begin and end an image."""
    assert model.images is not None
    return [model.images.config.begin_id, picture, model.images.config.end_id]


def _encode_part(model: LoadedModel, part: object, *, first: bool) -> list[Part]:
    if isinstance(part, Hole | Picture):
        return [part]
    if isinstance(part, Image):
        opening = model.tokenizer.encode_text("", bos=True) if first and model.tokenizer else []
        return [*opening, *_between(model, _picture(model, part))]
    if isinstance(part, str):
        return [*_tokenizer(model).encode_text(part, bos=first)]
    if isinstance(part, int) and not isinstance(part, bool):
        return [part]
    _refuse_kind(part)


def _refuse_empty() -> NoReturn:
    raise ParameterError("the prompt is empty; give at least one token of text", param="prompt")


def _refuse_kind(given: object) -> NoReturn:
    raise ParameterError(
        "a prompt is text, a list of token ids, a list of chat messages, or a list of text, Hole(n) and Image; got "
        f"{type(given).__name__}",
        param="prompt",
    )


def _check_ids(model: LoadedModel, parts: Sequence[Part]) -> None:
    size = model.config.vocab_size
    for part in parts:
        if isinstance(part, int) and not 0 <= part < size:
            raise ParameterError(
                f"token id {part} is outside the vocabulary; ids go from 0 to {size - 1}", param="prompt"
            )


def _tokenizer(model: LoadedModel):
    if model.tokenizer is None:
        raise ModelError(f"{model.source} has no tokenizer; pass token ids instead of text")
    return model.tokenizer
