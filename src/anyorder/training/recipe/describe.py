"""What a plan comes to, in words, before anything is trained."""

from __future__ import annotations

from anyorder.training.recipe.estimate import memory
from anyorder.training.recipe.objectives import Mixture, ObjectiveSpec, decoded_block
from anyorder.training.recipe.plan import Plan
from anyorder.training.recipe.spec import Lora


def rows(plan: Plan) -> list[tuple[str, str]]:
    """(name, text) of every line."""
    recipe, settings = plan.recipe, plan.optimisation
    lines = [
        ("model", _model(plan)),
        ("method", _method(plan)),
        ("objective", _objective(recipe.objective)),
        ("mask token", _mask(plan)),
        *(("data", text) for text in _data(plan)),
        ("rows", _rows(plan)),
        ("steps", _steps(plan)),
        ("learning rate", f"{settings.lr:g}, {settings.schedule}, warm-up over {settings.warmup:,} steps"),
        ("memory", _memory(plan)),
        ("result", _result(plan)),
    ]
    return [(name, text) for name, text in lines if text]


def _model(plan: Plan) -> str:
    source, count = plan.recipe.model.source, f"{plan.num_parameters:,} parameters"
    if plan.recipe.model.weights == "random":
        return f"the architecture of {source}, family {plan.found.spec.name}, {count}, random weights"
    return f"{source}: {plan.found.spec.title}, {count}"


def _method(plan: Plan) -> str:
    method, share = plan.recipe.method, plan.num_trained / plan.num_parameters
    trained = (
        f"{plan.num_trained:,} trained ({share:.3g} of the model)" if share < 1 else f"all {plan.num_trained:,} trained"
    )
    if isinstance(method, Lora):
        return f"lora of rank {method.rank}, alpha {method.alpha:g}: {trained}"
    return f"full: {trained}"


def _objective(spec: ObjectiveSpec) -> str:
    if isinstance(spec, Mixture):
        whole = sum(spec.shares)
        parts = [f"{share / whole:.0%} {_objective(part)}" for share, part in zip(spec.shares, spec.parts, strict=True)]
        return "; ".join(parts)
    block = decoded_block(spec)
    return spec.kind + (f", blocks of {block}" if block else "")


def _mask(plan: Plan) -> str:
    if plan.mask is None:
        return ""
    text = plan.mask.text or (plan.found.tokenizer.token(plan.mask.token_id) if plan.found.tokenizer else None)
    new = ", new" if plan.mask.text or plan.mask.vocab_size > plan.found.config.vocab_size else ""
    return f"id {plan.mask.token_id}{f' {text!r}' if text else ''}{new}"


def _data(plan: Plan) -> list[str]:
    lines: list[str] = []
    for source in plan.data.sources:
        if plan.data.packing is None:
            lines.append(f"{source.path}: read or made while training goes on")
            continue
        text = f"{source.path}: {source.documents:,} documents, {source.tokens:,} tokens, {source.trainable:,} learned"
        left_out = [f"{count:,} {reason}" for reason, count in source.dropped.most_common()]
        lines.append(text + (f"; left out: {', '.join(left_out)}" if left_out else ""))
    return lines


def _rows(plan: Plan) -> str:
    packing = plan.data.packing
    if packing is None:
        return f"of {plan.recipe.packing.length} tokens"
    cut = f", {packing.split:,} documents cut" if packing.split else ""
    lost = f", {packing.dropped_tokens:,} tokens left out with nothing to learn" if packing.dropped_tokens else ""
    return f"{packing.rows:,} of {packing.length} tokens, {packing.padding:.1%} padding{cut}{lost}"


def _steps(plan: Plan) -> str:
    batch = plan.optimisation.batch_rows
    tokens = plan.steps * batch * plan.recipe.packing.length
    epochs = "" if plan.epochs is None else f", {plan.epochs:.3g} epochs"
    return f"{plan.steps:,} of {batch} rows: up to {tokens:,} tokens{epochs}"


def _memory(plan: Plan) -> str:
    need = memory(plan)
    return (
        f"about {gigabytes(need.total)}: weights {gigabytes(need.weights)}, gradients and optimiser "
        f"{gigabytes(need.optimiser)}, a micro-batch {gigabytes(need.activations)}"
    )


def gigabytes(num_bytes: int) -> str:
    """`1.23 GB`."""
    return f"{num_bytes / 1e9:.3g} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.3g} MB"


def _result(plan: Plan) -> str:
    if plan.recipe.publishes_adapter:
        return "an adapter; the base and its causal mode stay as they are"
    way = plan.recipe.objective.denoising()
    mode = {"bidirectional": "full", "block": "block", "causal": "causal"}[way.attention]
    return f"a model that decodes in mode {mode}"
