"""Decoders of mode causal: a token per pass, or drafts that a pass verifies."""

from __future__ import annotations

from anyorder.decoders.base import Decoder
from anyorder.decoders.causal import CausalDecoder
from anyorder.decoders.draft import ACCELERATOR_ROWS, CPU_ROWS
from anyorder.decoders.drafters import Drafter, LookupDrafter, TreeDrafter
from anyorder.decoders.selfdraft import SelfDraftingDecoder
from anyorder.decoders.speculate import SpeculativeDecoder
from anyorder.ngrams import Guesser
from anyorder.ngrams.weights import PRIOR
from anyorder.request.ask import Ask

BLOCK_DRAFT = 32  # of a model whose block has no length of its own
LOOKUP_LENGTH = 3  # a CPU computes four rows in the time of one
TREE_NODES = 64  # more would hardly ever pay
MASK_GROUPS = 4  # places where a draft may end that get masks; they cover nine ends of ten
MASKS = 2  # per place, as the default model's adapter was trained


def causal_decoder(ask: Ask) -> Decoder:
    """The decoder of a request in mode causal."""
    params, canvas, chooser = ask.params, ask.canvas, ask.chooser
    canvas.grow(params.max_new_tokens)
    if params.draft == "none":
        exact = params.cache != "none"
        return CausalDecoder(canvas, chooser, stop_ids=ask.stop_ids, stored=ask.cached, exact_cache=exact)
    if params.draft == "block":
        length = params.draft_length or (ask.model.block_length or BLOCK_DRAFT) - 1
        return SelfDraftingDecoder(canvas, chooser, length=length, stop_ids=ask.stop_ids, stored=ask.cached)
    return SpeculativeDecoder(
        canvas,
        chooser,
        _drafter(ask),
        stop_ids=ask.stop_ids,
        stored=ask.cached,
        mask_groups=MASK_GROUPS if params.draft == "denoiser" else 0,
        masks=MASKS,
    )


def _drafter(ask: Ask) -> Drafter:
    params, table = ask.params, ask.model.ngrams
    if params.draft == "lookup":
        return LookupDrafter(params.draft_length or LOOKUP_LENGTH)
    guesser = Guesser(table, PRIOR if table is None else table.weights)
    cost = CPU_ROWS if ask.model.device.type == "cpu" else ACCELERATOR_ROWS
    if params.draft_length is not None:
        return TreeDrafter(guesser, params.draft_length, stop_ids=ask.stop_ids)
    return TreeDrafter(guesser, TREE_NODES, cost=cost, stop_ids=ask.stop_ids)
