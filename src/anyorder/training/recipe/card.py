"""The model card of a run: what it is, how it decodes, and what it was made of."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from anyorder.models.families.converted import Denoising
from anyorder.training import log
from anyorder.training.data.spec import TasksData
from anyorder.training.recipe.folder import LOG, RECIPE
from anyorder.training.recipe.objectives import Draft
from anyorder.training.recipe.plan import Plan
from anyorder.training.recipe.spec import Lora
from anyorder.training.trainer import Outcome


def card(plan: Plan, outcome: Outcome, folder: Path) -> str:
    """README.md in Markdown, with the front matter that the hub reads."""
    recipe = plan.recipe
    sections = [
        _front_matter(plan),
        f"# {folder.resolve().name}",
        f"{_what(plan)}\n\nTrained with anyorder {version('anyorder')}{f': {recipe.about}' if recipe.about else ''}.",
        f"## Use\n\n{_use(plan, folder)}",
        f"## Training\n\n{_training(plan, outcome, folder)}",
        f"## Data\n\n{_data(plan)}",
        f"## Recipe\n\n```toml\n{(folder / RECIPE).read_text('utf-8').strip()}\n```",
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(plan: Plan) -> str:
    model = plan.recipe.model
    lines = ["library_name: anyorder"]
    if model.weights == "trained":
        lines.append(f"base_model: {json.dumps(model.source)}")
    lines.append("tags:\n- diffusion-language-model")
    if plan.recipe.publishes_adapter:
        lines.append("- lora")
    return "---\n" + "\n".join(lines) + "\n---"


def _what(plan: Plan) -> str:
    recipe = plan.recipe
    if recipe.model.weights == "random":
        return (
            f"A model of the family `{plan.found.spec.name}` with {plan.num_parameters:,} parameters, trained from "
            f"random weights with the objective `{recipe.objective.kind}`."
        )
    made = f"`{recipe.model.source}` ({plan.found.spec.title})"
    if recipe.publishes_adapter:
        return f"A LoRA adapter of {made}. Clean text is read with it off: the causal mode is that of the base."
    how = "by a LoRA adapter that was merged into it" if isinstance(recipe.method, Lora) else "in all its weights"
    return f"{made}, trained {how} with the objective `{recipe.objective.kind}`."


def _use(plan: Plan, folder: Path) -> str:
    return f"```\nanyorder generate {_prompt(plan)} --model {folder}{_mode(plan)}\n```\n\n{_decodes(plan)}"


def _prompt(plan: Plan) -> str:
    sums = any(isinstance(source, TasksData) and "addition" in source.shares for source in plan.recipe.data)
    return '"?34+ 7=" --max-new-tokens 3' if sums else '"Why is the sky blue?"'


def _mode(plan: Plan) -> str:
    if not plan.recipe.publishes_adapter:
        return ""
    return "" if isinstance(plan.recipe.objective, Draft) else " --mode block"


def _decodes(plan: Plan) -> str:
    way: Denoising = plan.recipe.objective.denoising()
    mask = "" if plan.mask is None else f" The mask token is id {plan.mask.token_id}."
    rows = "the next token" if way.shift else "their own token"
    match way.attention:
        case "bidirectional":
            return f"It decodes in mode `full` and fills gaps; rows predict {rows}.{mask}"
        case "block":
            length = f"blocks of {plan.recipe.block_length} tokens"
            causal = " and in its causal mode" if way.causal else ""
            return (
                f"It decodes {length} in any order inside a block, in mode `block`{causal}; rows predict {rows}.{mask}"
            )
        case "causal":
            return f"It decodes in mode `causal`.{mask}"


def _training(plan: Plan, outcome: Outcome, folder: Path) -> str:
    settings = plan.optimisation
    losses = [float(record["loss"]) for record in log.read(folder / LOG)]
    last = losses[-max(1, len(losses) // 10) :]
    rows = [
        ("trained parameters", f"{plan.num_trained:,}"),
        ("steps", f"{outcome.step:,} of {settings.batch_rows} rows with {plan.recipe.packing.length} tokens"),
        ("tokens", f"{outcome.tokens:,}"),
        ("epochs", "–" if plan.epochs is None else f"{plan.epochs:.2f}"),
        ("loss, first logged steps", f"{losses[0]:.3f} nats per token"),
        ("loss, last tenth", f"{sum(last) / len(last):.3f} nats per token"),
        ("time", f"{outcome.seconds:,.0f} s"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"| | |\n| --- | --- |\n{table}\n\nThe loss of a diffusion objective is no likelihood of the text by itself."


def _data(plan: Plan) -> str:
    head = "| kind | source | documents | tokens | of them learned |\n| --- | --- | --- | --- | --- |"
    rows = [
        f"| {source.kind} | {source.path} | {_count(source.documents)} | {_count(source.tokens)} | "
        f"{_count(source.trainable)} |"
        for source in plan.data.sources
    ]
    return "\n".join([head, *rows]) + "\n\nHashes of the files, and what was left out of them, are in `data.json`."


def _count(number: int) -> str:
    """What is made while training goes on is not counted."""
    return f"{number:,}" if number else "–"
