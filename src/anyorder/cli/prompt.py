"""From what stands on the command line to the prompt of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyorder.cli.files import read_stdin, read_text
from anyorder.errors import ParameterError
from anyorder.images import Image

if TYPE_CHECKING:
    from anyorder.api import Prompt
    from anyorder.canvas import Hole
    from anyorder.models.loaded import LoadedModel

Messages = list[dict[str, Any]]
THINKING_IS_FOR_CHATS = "--thinking and --no-thinking need the chat template, which --raw and --hole leave out"


@dataclass(frozen=True, kw_only=True)
class PromptRequest:
    """What the user asked for, checked without a model.

    Attributes:
        hole, then: lengths of the gaps behind `text` and the texts that follow each; the last text may be missing.
        image: what is shown before `text`.
    """

    text: str
    system: str | None = None
    raw: bool = False
    thinking: bool | None = None
    hole: tuple[int, ...] = ()
    then: tuple[str, ...] = ()
    image: tuple[Image, ...] = ()

    def __post_init__(self) -> None:
        for part in (self.text, self.system or "", *self.then):
            check_text(part)
        if not self.text.strip() and not self.hole:
            raise ParameterError("the prompt is empty; give some text, a --prompt-file, or - for standard input")
        if len(self.hole) - len(self.then) not in (0, 1):
            raise ParameterError(
                f"{len(self.hole)} --hole and {len(self.then)} --then: each --then follows one --hole, in their order"
            )
        if min(self.hole, default=1) < 1:
            raise ParameterError(f"--hole must be at least 1 token, got {min(self.hole)}")
        if self.system is not None and (self.raw or self.hole):
            raise ParameterError("--system needs the chat template, which --raw and --hole leave out; drop one of them")
        if self.thinking is not None and (self.raw or self.hole):
            raise ParameterError(f"{THINKING_IS_FOR_CHATS}; drop one of them")

    def messages(self) -> Messages:
        """The prompt as a chat."""
        system = [{"role": "system", "content": self.system}] if self.system is not None else []
        return [*system, {"role": "user", "content": content_of(self.text, self.image)}]

    def parts(self) -> list[str | Hole | Image]:
        """The prompt as images, text and holes."""
        from anyorder.canvas import Hole

        parts: list[str | Hole | Image] = [*self.image, *([self.text] if self.text else [])]
        for length, text in zip_longest(self.hole, self.then):
            parts += [Hole(length), *([text] if text else [])]
        return parts

    def for_model(self, model: LoadedModel) -> Prompt:
        """What `anyorder.stream` takes: holes as parts, a chat where the model knows chats, else the bare prompt."""
        if self.hole:
            return self.parts()
        if self.system is not None and not has_chat_template(model):
            raise ParameterError(f"{model.source} has no chat template, so --system cannot be honoured; drop it")
        if self.thinking is not None and not has_chat_template(model):
            raise ParameterError(f"{model.source} has no chat template, so thinking cannot be switched; drop the flag")
        if self.raw or not has_chat_template(model):
            return self.parts() if self.image else self.text
        return self.messages()


def content_of(text: str, images: Sequence[Image]) -> str | list[dict[str, Any]]:
    """A user's message; images come first, as Gemma's documentation recommends."""
    shown = [{"type": "image", "image": image} for image in images]
    return [*shown, {"type": "text", "text": text}] if shown else text


def prompt_for(model: LoadedModel, prompt: str | Messages, *, raw: bool) -> Prompt:
    """A bare text becomes a chat if the model knows chats and the user did not say `raw`; messages stay."""
    if isinstance(prompt, str) and not raw and has_chat_template(model):
        return [{"role": "user", "content": prompt}]
    return prompt


def has_chat_template(model: LoadedModel) -> bool:
    """True if the tokenizer can write a chat."""
    return model.tokenizer is not None and model.tokenizer.has_chat_template


def check_text(text: str) -> None:
    """Refuse bytes of the command line or the terminal that were no UTF-8: Python hands them on as lone surrogates."""
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise ParameterError("the prompt is not valid UTF-8; put it into a UTF-8 file and use --prompt-file")


def prompt_text(argument: str | None, file: Path | None) -> str:
    """The prompt from wherever it comes: the argument, a file, or standard input (`-`).

    One newline at the end of a file or a pipe is the editor's or the shell's, not the user's, and is dropped.
    """
    if argument is not None and file is not None:
        raise ParameterError("the prompt is given twice, as an argument and as --prompt-file; drop one")
    if file is not None:
        return read_text(file).removesuffix("\n")
    if argument is None:
        raise ParameterError('no prompt; write it behind the command: anyorder generate "Why is the sky blue?"')
    return read_stdin().removesuffix("\n") if argument == "-" else argument
