"""`anyorder inspect`: what a checkpoint is and what can be done with it, from its config alone."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from anyorder.cli import quantize_view
from anyorder.cli.decoding import load_model, waiting
from anyorder.cli.family_view import abilities, attention, caches, with_default
from anyorder.cli.flags import Flag, takes
from anyorder.cli.terminal import out_console, safe
from anyorder.errors import ParameterError
from anyorder.policies.catalog import POLICIES

if TYPE_CHECKING:
    from anyorder.models.config import ModelConfig
    from anyorder.models.facts import Facts
    from anyorder.models.load.adapter import AdapterFiles
    from anyorder.models.moe import MoeConfig
    from anyorder.models.shift import ShiftReport
    from anyorder.models.spec import FamilySpec

NAME = "inspect"
HELP = """Say what a model is: family, sizes, memory at a context length, and which modes, policies and caches it takes.

Reads the config only, so it is quick for a model of any size; --check loads the weights and tries them.
"""
EXAMPLES = """[bold]Examples[/]

anyorder inspect

anyorder inspect GSAI-ML/LLaDA-8B-Instruct --context 4096 --dtype bfloat16

anyorder inspect ./model.gguf --check

anyorder inspect --quantize

anyorder inspect ./Dream-v0-Instruct-7B --json
"""
DTYPES = ("float32", "bfloat16", "float16", "float64")
INSPECT_FLAGS = (
    Flag(name="context", type=int, metavar="N", panel="Inspect", shown_default="the model's",
         help="Tokens of prompt and answer for which the memory is computed."),
    Flag(name="dtype", type=str, metavar="NAME", panel="Inspect", shown_default="the checkpoint's",
         help="Number format for which the memory is computed, and in which --quantize loads: float32, bfloat16, "
         "float16, float64."),
    Flag(name="check", type=bool, panel="Inspect",
         help="Load the weights, check every tensor, and check that the logits are shifted as the family says."),
    Flag(name="quantize", type=bool, panel="Inspect",
         help="Load the weights in 8 and 4 bits, and show memory, errors of the logits, and speed of each."),
    Flag(name="json", type=bool, panel="Inspect", help="Print the facts as JSON."),
)  # fmt: skip
HUB_FLAGS = (
    Flag(name="revision", type=str, metavar="REV", panel="Model", help="Branch, tag or commit of a hub id."),
    Flag(name="offline", type=bool, panel="Model", help="Use only hub files that are on this machine."),
)


@takes(wanted=INSPECT_FLAGS, hub=HUB_FLAGS)
def command(
    model: Annotated[
        str | None, typer.Argument(help="Folder, GGUF file or hub id.", show_default="the embedded model")
    ] = None,
    *,
    wanted: dict[str, Any],
    hub: dict[str, Any],
) -> None:
    """Facts first, then the check if it is wanted."""
    with waiting("reading the config"):
        raw, adapter = read_model(model, **hub)
    facts = facts_of(raw, adapter, context=wanted.get("context"), dtype=wanted.get("dtype"))
    report = _check({"model": model, **hub}) if "check" in wanted else None
    if report is not None:
        facts["check"] = {**asdict(report), "measured": report.measured}
    if "quantize" in wanted:
        facts["quantized"] = quantize_view.measured(_given(model, hub, wanted))
    if "json" in wanted:
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    else:
        show(facts)
        if "quantized" in facts:
            quantize_view.show(facts["quantized"])
    if report is not None:
        report.require()


def _given(model: str | None, hub: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `load`."""
    dtype = {"dtype": wanted["dtype"]} if "dtype" in wanted else {}
    return {**({} if model is None else {"model": model}), **hub, **dtype}


def read_model(model: str | None, **hub: Any) -> tuple[dict[str, Any], AdapterFiles | None]:
    """config.json of the model, or of the base of an adapter, and the adapter."""
    from anyorder.models.load.adapter import is_adapter
    from anyorder.models.load.folder import read_config
    from anyorder.models.load.source import locate
    from anyorder.models.load.survey import base_of, find_adapter

    folder, offline = locate(model, config_only=True, **hub), hub.get("offline", False)
    adapter = find_adapter(model, folder, None, offline)
    if is_adapter(folder):
        folder = locate(base_of(folder), config_only=True, offline=offline)
    return read_config(folder), adapter


def _check(load: dict[str, Any]) -> ShiftReport:
    """Load the weights, which checks every tensor and the tokenizer, and look whether the logits are shifted."""
    from anyorder.models.shift import check_shift

    return check_shift(load_model({name: value for name, value in load.items() if value is not None}))


def facts_of(
    raw: dict[str, Any], adapter: AdapterFiles | None = None, *, context: int | None = None, dtype: str | None = None
) -> dict[str, Any]:
    """Everything that a config.json tells about a model, JSON-able.

    Args:
        raw: the parsed config.json.
        adapter: that the model denoises with.
        context: tokens for which the memory is computed; None: the model's longest.
        dtype: number format for which it is computed; None: the one that config.json names, else float32.
    Raises:
        ModelError: the family is unknown or a setting is not supported.
        ParameterError: the dtype is unknown, or the context is below 1 or longer than the model's.
    """
    import torch

    from anyorder.models.facts import describe
    from anyorder.models.families import recognise
    from anyorder.models.load.survey import spec_with

    spec = spec_with(recognise(raw), None, adapter)
    config = spec.parse(raw)
    number = _checked_dtype(dtype) or _named_dtype(raw)
    sizes = describe(config, spec, dtype=getattr(torch, number), context=_checked_context(context, config))
    formats = _formats(config, spec)
    return {
        "family": spec.name,
        "title": spec.title,
        "parameters": sizes.num_parameters,
        "active_parameters": sizes.active_parameters,
        "image_parameters": sizes.image_parameters,
        "layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "heads": config.num_heads,
        "kv_heads": config.num_kv_heads,
        "vocab_size": config.vocab_size,
        "max_context": config.max_context,
        "dtype": number,
        "context": sizes.context,
        "weight_bytes": sizes.weight_bytes,
        "kv_bytes": sizes.kv_bytes,
        "formats": {name: each.weight_bytes for name, each in formats.items()},
        "table_bytes": {name: each.table_bytes for name, each in formats.items()},
        "experts": None if config.moe is None else _expert_facts(config.moe),
        **_abilities(raw, spec, adapter),
        "inputs": ["text", "images"] if sizes.image_parameters else ["text"],
        "adapter": None if adapter is None else _adapter_facts(adapter),
    }


def _formats(config: ModelConfig, spec: FamilySpec) -> dict[str, Facts]:
    """Sizes in each number format; those of fewer bits beside bfloat16."""
    import torch

    from anyorder.models.facts import describe
    from anyorder.models.quantised import SCHEMES

    whole = {name: describe(config, spec, dtype=getattr(torch, name)) for name in ("float32", "bfloat16")}
    few = {name: describe(config, spec, dtype=torch.bfloat16, scheme=SCHEMES[name]) for name in SCHEMES}
    return whole | few


def _expert_facts(moe: MoeConfig) -> dict[str, Any]:
    return {
        "number": moe.num_experts,
        "per_token": moe.top_k,
        "width": moe.expert_size,
        "layers": sum(moe.layers),
        "per_block": moe.block_experts,
        "shared_width": moe.shared_size,
        "groups": moe.num_groups,
        "groups_per_token": moe.top_groups,
    }


def _adapter_facts(adapter: AdapterFiles) -> dict[str, Any]:
    config = adapter.config
    return {"folder": str(adapter.folder), "base": adapter.base, "rank": config["r"], "alpha": config["lora_alpha"]}


def _checked_dtype(dtype: str | None) -> str | None:
    if dtype is not None and dtype not in DTYPES:
        raise ParameterError(f"--dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return dtype


def _named_dtype(raw: dict[str, Any]) -> str:
    named = raw.get("dtype") or raw.get("torch_dtype")
    return named if named in DTYPES else "float32"


def _checked_context(context: int | None, config: ModelConfig) -> int:
    if context is None:
        return config.max_context
    if not 1 <= context <= config.max_context:
        raise ParameterError(f"--context must be between 1 and the model's {config.max_context}, got {context}")
    return context


def _abilities(raw: dict[str, Any], spec: FamilySpec, adapter: AdapterFiles | None) -> dict[str, Any]:
    from anyorder.models.load.resolve import resolve_block

    block, mask = (None, None) if adapter is None else (adapter.block_length, adapter.mask_token_id)

    return {
        **abilities(spec),
        "mask_token_id": _mask_id(raw, spec) if mask is None else mask,
        "block_length": resolve_block(block, raw, spec),
        "mask_is_last": spec.mask_is_last,
        "noise": spec.noise,
        "policies": [name for name in POLICIES if (name == "renoise") == (spec.noise == "uniform")],
    }


def _mask_id(raw: dict[str, Any], spec: FamilySpec) -> int | None:
    return raw["vocab_size"] - 1 if spec.mask_is_last else raw.get("mask_token_id", spec.mask_token_id)


def show(facts: dict[str, Any]) -> None:
    """The facts as a table that fits into 80 columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows(facts):
        table.add_row(name, safe(value))
    out_console().print(table)


def rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """(name, text) of every line."""
    heads = f"{facts['heads']} heads, {facts['kv_heads']} for keys and values"
    both = facts["weight_bytes"] + facts["kv_bytes"]
    lines = [
        ("family", f"{facts['family']}: {facts['title']}"),
        ("parameters", _parameters(facts)),
        ("shape", f"{facts['layers']} layers of width {facts['hidden_size']}, {heads}"),
        ("vocabulary", f"{facts['vocab_size']:,}"),
        ("context", f"{facts['max_context']:,} tokens"),
        ("memory", f"{_amount(both)} at {facts['context']:,} tokens in {facts['dtype']}: weights "
         f"{_amount(facts['weight_bytes'])}, keys and values {_amount(facts['kv_bytes'])} per request"),
        ("weights in", _formats_line(facts)),
        ("attention", attention(facts)),
        ("mask token", _mask_token(facts)),
        ("input", ", ".join(facts["inputs"])),
        ("block", f"{facts['block_length']} slots" if facts["block_length"] else "any length"),
        ("modes", with_default(facts["modes"], facts["default_mode"])),
        ("policies", with_default(facts["policies"], facts["default_policy"])),
        ("caches", caches(facts)),
        ("infill", "yes" if facts["infill"] else "not trained for it"),
        ("source", facts["source"]),
    ]  # fmt: skip
    if facts["experts"] is not None:
        lines.insert(3, ("experts", _experts(facts["experts"])))
    if facts["adapter"] is not None:
        of = "" if facts["adapter"]["base"] is None else f" of {facts['adapter']['base']}"
        lines.insert(1, ("adapter", f"LoRA{of}, rank {facts['adapter']['rank']}: on for denoising, off in mode causal"))
    return [*lines, *([("check", _verdict(facts["check"]))] if "check" in facts else [])]


def _parameters(facts: dict[str, Any]) -> str:
    total, active, images = facts["parameters"], facts["active_parameters"], facts["image_parameters"]
    text = f"{total:,}" + (f", {active:,} of them active for a token" if active < total else "")
    return text + (f"; {images:,} more read images" if images else "")


def _formats_line(facts: dict[str, Any]) -> str:
    """Of the formats of 8 bits one stands for both: they differ in speed only."""
    shown = {name: size for name, size in facts["formats"].items() if name != "int8-dynamic"}
    sizes = ", ".join(f"{name} {_amount(size)}" for name, size in shown.items())
    few = "" if facts["table_bytes"]["bfloat16"] else " of fewer bits"
    return f"{sizes}; a CPU leaves {_amount(facts['table_bytes']['int8'])} of those{few} in the file: the embeddings"


def _experts(experts: dict[str, Any]) -> str:
    groups = f" from {experts['groups_per_token']} of {experts['groups']} groups" if experts["groups"] > 1 else ""
    if experts["per_block"]:
        groups = f" from {experts['per_block']} that a block shares"
    shared = f", and shared ones of width {experts['shared_width']}" if experts["shared_width"] else ""
    return (
        f"{experts['number']} of width {experts['width']} in {experts['layers']} layers, {experts['per_token']} per "
        f"token{groups}{shared}"
    )


def _mask_token(facts: dict[str, Any]) -> str:
    if facts["mask_token"] is not None:
        return facts["mask_token"]
    number = facts["mask_token_id"]
    if facts["noise"] == "uniform":
        return "none: open slots hold random tokens"
    if facts["mask_is_last"]:
        return f"id {number}, the last row"
    return "none of its own: a rarely used token stands in" if number is None else f"id {number}"


def _verdict(check: dict[str, Any]) -> str:
    """What the loaded weights said."""
    found = {True: "shifted by one", False: "not shifted", None: "unclear, shifted or not"}[check["measured"]]
    readings = f"log-probability {check['shifted']:.2f} if shifted, {check['unshifted']:.2f} if not"
    return f"all tensors are there; the logits are {found} ({readings})"


def _amount(num_bytes: int) -> str:
    """`1.25 GiB`."""
    value, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1000:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}"
