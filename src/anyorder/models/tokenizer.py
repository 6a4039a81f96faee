"""Text to ids and back. What a user writes never becomes a control or mask token, whatever it spells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

from anyorder.errors import ModelError, ParameterError
from anyorder.models import chat
from anyorder.models.tokenizer_files import TokenizerFiles, read_files

UNASSIGNED = "\U0010fffd"
"""A private character that no vocabulary holds."""


def read_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer beside the weights, None when there is none; no code from the folder runs. Errors: `read_files`."""
    files = read_files(folder)
    return None if files is None else Tokenizer(files)


class Tokenizer:
    """A checkpoint's tokenizer, with user text and control tokens kept apart.

    *Control tokens* are all added tokens, special or not, except blanks (some vocabularies add runs of spaces, which
    are ordinary text) and the unknown token.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        self.files = files
        self._backend = files.backend
        self._control = self._control_ids()

    def encode_text(self, text: str, *, bos: bool = False) -> list[int]:
        """User text to ids, none of them a control token; without any in the text, the tokenizer's own encoding.

        Args:
            bos: start with what this tokenizer puts before a text (a BOS id, or nothing).
        Raises:
            ParameterError: a single character of the text only exists as a control token.
        """
        ids = self._own(text)
        if not self._control.isdisjoint(ids):
            ids = self._without_control(text)
        return [*self._opening, *ids] if bos else ids

    def encode_chat(
        self,
        messages: Sequence[chat.Message],
        *,
        add_generation_prompt: bool = True,
        inputs: chat.TemplateInputs = chat.NOTHING,
    ) -> list[int]:
        """A conversation to ids: control tokens come from the chat template, never from what the caller wrote.

        Args:
            messages: each with `role` (system, user, assistant, tool) and `content`: text, or a list of texts
                `{"type": "text", "text": ...}` and places of images `{"type": "image"}`.
            add_generation_prompt: end with the opening of the assistant's turn.
            inputs: tools and variables for the template.
        Raises:
            ParameterError: the messages are malformed, the template rejects them, or it reads no such variable.
            ModelError: the checkpoint has no chat template.
        """
        template = self.files.chat_template
        if template is None:
            raise ModelError("this checkpoint has no chat template; give it a plain prompt instead of messages")
        checked, named = chat.check_messages(messages), self.files.named
        chat.check_variables(template, inputs.variables, named)
        pieces = chat.fenced(
            template, checked, prompt=add_generation_prompt, named=named, inputs=inputs, control=self._control_strings
        )
        # the tokenizer's own encoding of the whole is kept if exactly the template's control tokens come out of it:
        # encoding the pieces alone would lose merges across their seams
        written = [checked, inputs.tools, inputs.variables]
        harmless = not chat.spells(written, self._control_strings)
        if harmless and all(
            self._control.isdisjoint(self._own(text)) for message in checked for text in chat.written(message)
        ):
            text = chat.render(template, checked, prompt=add_generation_prompt, named=named, inputs=inputs)
            ids = self._own(text)
            if self._controls(ids) == [
                token for own, text in pieces if own for token in self._controls(self._own(text))
            ]:
                return ids
        return [token for own, text in pieces for token in (self._own(text) if own else self.encode_text(text))]

    def answer_opening(self, inputs: chat.TemplateInputs = chat.NOTHING) -> str:
        """What the chat template writes to open the assistant's turn.

        Errors: as `encode_chat`.
        """
        template = self.files.chat_template
        if template is None:
            raise ModelError("this checkpoint has no chat template; give it a plain prompt instead of messages")
        chat.check_variables(template, inputs.variables, self.files.named)
        probe = [{"role": "user", "content": "?"}]
        told = chat.TemplateInputs(variables=inputs.variables)
        closed, opened = (
            chat.render(template, probe, prompt=prompt, named=self.files.named, inputs=told) for prompt in (False, True)
        )
        return opened.removeprefix(closed)

    def decode(self, ids: Sequence[int], *, skip_special: bool = True, shown: frozenset[int] = frozenset()) -> str:
        """Ids to text; rows of the embedding table behind the vocabulary decode to nothing.

        Args:
            shown: special tokens that are not skipped.
        """
        if skip_special and shown:
            kept = [token for token in ids if token in shown or token not in self._special]
            return self._backend.decode(kept, skip_special_tokens=False)
        return self._backend.decode(ids, skip_special_tokens=skip_special)

    def token_id(self, token: str) -> int | None:
        """Id of a token by its exact string, None when the vocabulary lacks it."""
        return self._backend.token_to_id(token)

    def token(self, token_id: int) -> str | None:
        """String of an id as the vocabulary spells it, None when it has none."""
        return self._backend.id_to_token(token_id)

    @property
    def eos(self) -> str | None:
        """String of the end-of-sequence token."""
        return self.files.named.get("eos_token")

    @property
    def bos(self) -> str | None:
        """String of the token that begins a text."""
        return self.files.named.get("bos_token")

    @property
    def has_chat_template(self) -> bool:
        return self.files.chat_template is not None

    @property
    def chat_template(self) -> str | None:
        """Its source, None when the checkpoint has none."""
        return self.files.chat_template

    def is_control(self, token_id: int) -> bool:
        """Can this id only come from a template or the engine, never from a user's text?"""
        return token_id in self._control

    def __len__(self) -> int:
        """Tokens of the vocabulary, added ones included; the embedding table may have more rows."""
        return self._backend.get_vocab_size(with_added_tokens=True)

    def _own(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids

    def _controls(self, ids: list[int]) -> list[int]:
        return [token for token in ids if token in self._control]

    def _control_ids(self) -> frozenset[int]:
        added = self._backend.get_added_tokens_decoder()
        control = {index for index, token in added.items() if token.special or token.content.strip()}
        return frozenset(control.difference(self._own(UNASSIGNED)))  # the unknown token, where the vocabulary uses one

    @cached_property
    def _control_strings(self) -> tuple[str, ...]:
        return tuple(string for token in sorted(self._control) if (string := self.token(token)))

    @cached_property
    def _special(self) -> frozenset[int]:
        """Added tokens that decoding skips."""
        added = self._backend.get_added_tokens_decoder()
        return frozenset(index for index, token in added.items() if token.special)

    def _without_control(self, text: str) -> list[int]:
        """Encode as if no token had been added to the vocabulary."""
        ids = self._bare.encode(text, add_special_tokens=False).ids
        if self._control.isdisjoint(ids):
            return ids
        # a vocabulary that holds the control string as an ordinary entry: take it apart
        if len(text) == 1:
            raise ParameterError(f"the text contains {text!r}, which this tokenizer only knows as a control token")
        middle = len(text) // 2
        return [*self._without_control(text[:middle]), *self._without_control(text[middle:])]

    @cached_property
    def _bare(self) -> tokenizers.Tokenizer:
        """The backend without its added tokens; made on first need, since few texts spell one."""
        fields = json.loads(self._backend.to_str())
        fields["added_tokens"] = []  # keeping some would renumber them
        fields["post_processor"] = None  # names added tokens
        return tokenizers.Tokenizer.from_str(json.dumps(fields))

    @cached_property
    def _opening(self) -> list[int]:
        """What the tokenizer puts before a text of its own accord."""
        if self.files.add_bos_token is not None:
            bos = self.token_id(self.files.named.get("bos_token", ""))
            return [bos] if self.files.add_bos_token and bos is not None else []
        plain, full = self._own("a"), self._backend.encode("a").ids
        return full[: next((at for at in range(len(full)) if full[at : at + len(plain)] == plain), 0)]
