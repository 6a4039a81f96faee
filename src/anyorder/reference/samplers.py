"""From the parameters of a published sampler to our decoders, one per row of its batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.canvas import Canvas, Hole
from anyorder.decoders.block import BlockDecoder
from anyorder.decoders.choose import Chooser, Sampling
from anyorder.decoders.edit import Editing, EditingDecoder
from anyorder.decoders.full import FullDecoder
from anyorder.draws import Draws
from anyorder.models.loaded import LoadedModel
from anyorder.policies.catalog import POLICIES
from anyorder.policies.published import Knobs
from anyorder.prompt import strip_padding
from anyorder.reference.outcome import Mismatch
from anyorder.reference.recorded import RecordedDraws

Case = dict[str, Any]


def build_rows(
    model: LoadedModel, recorded: dict[str, Any], case: Case, *, scheme: str | None = None
) -> list[BlockDecoder | FullDecoder]:
    """The decoders of a recorded run.

    Args:
        recorded: the whole file, for the ids at its top.
        scheme: a cache instead of the recorded one.
    Raises:
        Mismatch: a family without a published sampler here.
    """
    builders = {
        "llada": _llada,
        "llada_moe": _llada,
        "llada2_moe": _llada2,
        "dream": _dream,
        "sdar": _sdar,
        "fast_dllm_v2": _fast_dllm_v2,
    }
    if model.spec.name not in builders:
        raise Mismatch(f"no published sampler of family {model.spec.name!r} is replayed in this version")
    build = builders[model.spec.name]
    return [build(model, recorded, case, index, scheme) for index in range(len(case["prompt_ids"]))]


def _prompt(case: Case, row: int, mask_id: int) -> list[int | Hole]:
    """One row without its padding; the published samplers take every mask id in it for a hole."""
    ids = case["prompt_ids"][row]
    if "attention_mask" in case:
        (ids,) = strip_padding([ids], [case["attention_mask"][row]])
    if "seq_len" in case:
        ids = ids[: case["seq_len"][row]]
    return [Hole(1) if token == mask_id else token for token in ids]


def _chooser(
    model: LoadedModel, policy: str, *, knobs: Knobs | None = None, alg_temp: float | None = None, **sampling: Any
) -> Chooser:
    assert model.mask_token_id is not None
    spec = model.spec
    return Chooser(
        policy=POLICIES[policy],
        sampling=Sampling(
            mask_id=model.mask_token_id, filter_order=spec.filter_order, confidence=spec.confidence, **sampling
        ),
        knobs=knobs or Knobs(),
        alg_temp=alg_temp,
    )


def _llada(model: LoadedModel, recorded: Case, case: Case, row: int, scheme: str | None) -> FullDecoder:
    params, mask_id = case["params"], case["params"]["mask_id"]
    canvas = Canvas.from_prompt(_prompt(case, row, mask_id), mask_id=mask_id)
    canvas.grow(params["gen_length"])
    threshold = params.get("threshold")
    eos, eot = recorded.get("eos_token_id", -1), case.get("eot_token_id", recorded.get("eot_token_id", -1))
    chooser = _chooser(
        model,
        "low_confidence" if threshold is None else "threshold",
        knobs=Knobs(threshold=threshold or 0.0),
        temperature=params["temperature"],
        banned_ids=(eos,) if params.get("logits_eos_inf") else (),
        late_ids=(eos, eot) if params.get("confidence_eos_eot_inf") else (),
    )
    schemes = {"generate_with_prefix_cache": "prefix", "generate_with_dual_cache": "dual"}
    return FullDecoder(
        canvas,
        chooser,
        end=len(canvas),
        block_length=params["block_length"],
        steps=params["steps"] // (params["gen_length"] // params["block_length"]),
        scheme=schemes.get(case["function"], "none"),  # type: ignore[arg-type]
        cfg_scale=params.get("cfg_scale", 0.0),
    )


def _dream(model: LoadedModel, recorded: Case, case: Case, row: int, scheme: str | None) -> FullDecoder:
    params, block = case["params"], case["params"].get("block_length")
    assert model.mask_token_id is not None
    prompt = _prompt(case, row, model.mask_token_id)
    forced = {position - len(prompt): token for position, token in case.get("initial_tokens", [])}
    canvas = Canvas.from_prompt(prompt, mask_id=model.mask_token_id, forced=forced)
    canvas.grow(params["max_new_tokens"])
    # the block sampler ignores the budget of `confidence_threshold`
    policy = "threshold" if block and params["alg"] == "confidence_threshold" else params["alg"]
    chooser = _chooser(
        model,
        policy,
        knobs=Knobs(threshold=params.get("threshold", 0.9)),
        alg_temp=params.get("alg_temp"),
        temperature=params["temperature"],
        top_p=params.get("top_p"),
        top_k=params.get("top_k"),
        draws=_draws(case),
    )
    return FullDecoder(
        canvas,
        chooser,
        end=len(canvas),
        block_length=block,
        steps=params["steps"] // (params["max_new_tokens"] // block if block else 1),
        eps=params.get("eps", 1e-3),
        shift=True,
        scheme="none" if not block else "dual" if params["dual_cache"] else "prefix",
    )


def _sdar(model: LoadedModel, recorded: Case, case: Case, row: int, scheme: str | None) -> BlockDecoder:
    params, mask_id = case["params"], case["params"]["mask_id"]
    block = params["block_length"]
    canvas = Canvas.from_prompt(_prompt(case, row, mask_id), mask_id=mask_id)
    greedy = case["draw"] == "argmax"  # with the probabilities of temperature 1
    chooser = _chooser(
        model,
        params["remasking_strategy"],
        knobs=Knobs(threshold=params.get("confidence_threshold", 0.85), strict=True),
        temperature=0.0 if greedy else params["temperature"],
        top_p=params["top_p"] if params["top_p"] < 1 else None,
        top_k=params["top_k"] or None,
        draws=_draws(case, block),
    )
    return BlockDecoder(
        canvas,
        chooser,
        end=-(-(len(canvas) + params["gen_length"]) // block) * block,
        block_length=block,
        stop_ids=_ids(params.get("stopping_criteria_idx")),
        steps=params["denoising_steps"],
        scheme=scheme or "block",  # type: ignore[arg-type]
        finish_block=True,
        write_last=True,
    )


def _llada2(model: LoadedModel, recorded: Case, case: Case, row: int, scheme: str | None) -> BlockDecoder:
    params, mask_id = case["params"], case["params"]["mask_id"]
    block, early = params["block_length"], params["eos_early_stop"]
    canvas = Canvas.from_prompt(_prompt(case, row, mask_id), mask_id=mask_id)
    chooser = _chooser(
        model,
        "low_confidence_dynamic",
        knobs=Knobs(threshold=params["threshold"], strict=True),
        temperature=params["temperature"],
    )
    options: dict[str, Any] = {
        "end": -(-(len(canvas) + params["gen_length"]) // block) * block,
        "block_length": block,
        "scheme": scheme or "none",
        "fuse_write": True,
        "past_stop": True,
    }
    if case["version"] == "2.0":
        steps = min(params["steps"], params["gen_length"] // params.get("minimal_topk", 1))
        stop_ids = (params["eos_id"],)
        return BlockDecoder(canvas, chooser, stop_ids=stop_ids, steps=steps, finish_block=not early, **options)
    editing = Editing(
        threshold=params["editing_threshold"], max_post_passes=params["max_post_steps"], cycle_guard=False
    )
    options["stop_ids"] = (params["eos_id"],) if early else ()  # else its answer is only cut behind the token
    return EditingDecoder(canvas, chooser, editing=editing, steps=block // params.get("num_to_transfer", 1), **options)


def _fast_dllm_v2(model: LoadedModel, recorded: Case, case: Case, row: int, scheme: str | None) -> BlockDecoder:
    params, mask_id = case["params"], case["params"]["mask_id"]
    block, batched = params["block_size"], case["function"] == "batch_sample"
    canvas = Canvas.from_prompt(_prompt(case, row, mask_id), mask_id=mask_id)
    first = max(case["seq_len"]) // block if batched else len(canvas) // block
    end = (first + params["max_new_tokens"] // block) * block + 1  # one more token comes with the last write
    chooser = _chooser(
        model, "threshold", knobs=Knobs(threshold=params["threshold"], strict=True), temperature=params["temperature"]
    )
    recorded_scheme = "sub_block" if params["use_block_cache"] else "block"
    return BlockDecoder(
        canvas,
        chooser,
        end=end,
        block_length=block,
        stop_ids=(params["stop_token"],),
        sub_block_length=params["small_block_size"],
        shift=True,
        scheme=scheme or recorded_scheme,  # type: ignore[arg-type]
        finish_block=batched,
        past_stop=True,
    )


def _draws(case: Case, block_length: int | None = None) -> Draws:
    entries = case.get("draws")
    return RecordedDraws(entries=tuple(entries), block_length=block_length) if entries else Draws()


def _ids(ids: Sequence[int] | None) -> tuple[int, ...]:
    return tuple(ids or ())
