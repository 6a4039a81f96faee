"""From resolved parameters, a model and a prompt to a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from anyorder.canvas import Canvas, Part, count_slots
from anyorder.decoders.base import Decoder
from anyorder.errors import ContextError, ParameterError
from anyorder.params import DecodeParams
from anyorder.request.ask import Ask, mask_id
from anyorder.request.blocks import block_decoder, full_decoder, noise_decoder
from anyorder.request.choosing import banned_ids, make_chooser
from anyorder.request.drafts import causal_decoder

if TYPE_CHECKING:
    from anyorder.models.loaded import LoadedModel


def build_decoder(
    params: DecodeParams,
    model: LoadedModel,
    prompt: Sequence[Part],
    *,
    request: int = 0,
    sample: int = 0,
    cached: int = 0,
) -> Decoder:
    """A decoder for one prompt.

    Args:
        params: from `resolve`.
        prompt: token ids, holes and pictures.
        request: index in the batch, for the events.
        sample: number of the sample under one seed, for the draws.
        cached: leading columns whose keys and values the caller still has.
    Raises:
        ContextError: prompt and answer do not fit the model.
        ParameterError: there is nothing to decode, or a token id does not exist.
        ModelError: the mode needs a mask token and the model has none.
    """
    mask = mask_id(params, model)
    prompt_length = count_slots(prompt)
    end = prompt_length + params.max_new_tokens
    _check_context(params, model, prompt_length, end)
    canvas = Canvas.from_prompt(prompt, mask_id=mask, request=request, forced=params.forced)
    if params.max_new_tokens == 0 and canvas.is_filled():
        raise ParameterError(
            "`max_new_tokens` is 0 and the prompt has no holes: there is nothing to decode; raise it or add a Hole",
            param="max_new_tokens",
        )
    _check_ids(params, model)
    ask = Ask(
        params=params,
        model=model,
        canvas=canvas,
        chooser=make_chooser(params, model, sample),
        end=end,
        stop_ids=model.stop_ids if params.stop_ids is None else params.stop_ids,
        cached=cached,
    )
    if params.mode == "full":
        return full_decoder(ask)
    if params.mode == "causal":
        return causal_decoder(ask)
    return noise_decoder(ask) if model.spec.noise == "uniform" else block_decoder(ask)


def _check_context(params: DecodeParams, model: LoadedModel, prompt_length: int, end: int) -> None:
    limit = model.config.max_context
    if model.spec.slides and params.mode == "block":
        return
    if end > limit:
        raise ContextError(
            f"the prompt has {prompt_length} tokens and max_new_tokens is {params.max_new_tokens}, together {end}; "
            f"the model's context is {limit}: shorten them by {end - limit}"
        )


def _check_ids(params: DecodeParams, model: LoadedModel) -> None:
    named: dict[str, Iterable[int]] = {
        "banned_ids": params.banned_ids,
        "logit_bias": params.logit_bias,
        "stop_ids": params.stop_ids or (),
        "forced": params.forced.values(),
    }
    size = model.config.vocab_size
    for name, ids in named.items():
        for token in ids:
            if token >= size:
                raise ParameterError(f"`{name}` holds token id {token}; ids go from 0 to {size - 1}", param=name)
    if params.mode != "causal" and model.mask_token_id in params.forced.values():
        raise ParameterError(
            f"`forced` cannot hold the mask id {model.mask_token_id}; give the id of a real token", param="forced"
        )
    if params.mode != "causal" and model.mask_token_id in params.logit_bias:
        raise ParameterError(
            f"`logit_bias` names the mask id {model.mask_token_id}, which is never produced; drop it",
            param="logit_bias",
        )
    if len({model.mask_token_id, *banned_ids(params, model)}) >= size:
        raise ParameterError("`banned_ids` leaves no token to produce; ban fewer", param="banned_ids")
