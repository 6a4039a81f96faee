"""`anyorder plan`: does a diffusion model pay on a machine, and up to which batch?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anyorder.cli.decoding import waiting
from anyorder.cli.flags import Flag, parse_list, takes
from anyorder.cli.inspect import HUB_FLAGS, read_model
from anyorder.cli.plan_view import show_plan
from anyorder.cli.terminal import err_console
from anyorder.errors import ParameterError

if TYPE_CHECKING:
    from anyorder.models.config import ModelConfig
    from anyorder.plan.machine import Machine
    from anyorder.plan.report import Question

NAME = "plan"
HELP = """Work out whether diffusion decoding pays: time per pass by block and batch, break-even tokens per forward.

The roofline of a model's config on a machine: this one, measured in some ten seconds, one from a public data sheet, or
your own figures. Tells up to which batch a block is cheaper than a token at a time, the memory, the price of a million
tokens, and how many accelerators a load takes. No weights are loaded.
"""
EXAMPLES = """[bold]Examples[/]

anyorder plan

anyorder plan GSAI-ML/LLaDA-8B-Instruct --machine h100 --price 2.50 --tpf 2.5,4

anyorder plan ./SDAR-4B --machine l4 --dtype bfloat16 --context 4096 --load 20000 --plot plan.png

anyorder plan ./model --bandwidth 1.2e12 --matrix-rate 2e14 --memory 48e9
"""
BYTES = {"float64": 8.0, "float32": 4.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0, "int4": 0.5}
DATA_SHEET = "bfloat16"


MACHINE_FLAGS = (
    Flag(name="machine", type=str, metavar="NAME", panel="Machine", shown_default="this, measured",
         help="a100, h100, h200, b200, l4, l40s, rtx4090, rtx5090, mi300x (from data sheets, not measured), this, or a "
         "file that --save-machine wrote."),
    Flag(name="bandwidth", type=float, metavar="X", panel="Machine", help="Bytes per second from memory."),
    Flag(name="matrix_rate", type=float, metavar="X", panel="Machine",
         help="Operations per second of large matrix products."),
    Flag(name="memory", type=float, metavar="BYTES", panel="Machine", help="Memory for weights, keys and values."),
    Flag(name="price", type=float, metavar="X", panel="Machine", help="Of an hour; tells what a million tokens cost."),
    Flag(name="save_machine", type=Path, metavar="FILE", panel="Machine", help="Keep the machine's figures as JSON."),
)  # fmt: skip
QUESTION_FLAGS = (
    Flag(name="dtype", type=str, metavar="NAME", panel="Model", shown_default="the checkpoint's",
         help=f"Number format of weights, keys and values: {', '.join(BYTES)}."),
    Flag(name="context", type=int, metavar="N", panel="Decoding", shown_default="1024",
         help="Tokens of prompt and answer that a sequence has, on average."),
    Flag(name="block_length", type=tuple, metavar="N,N,...", panel="Decoding", shown_default="4,8,16,32",
         parser=parse_list(int, "4,8,16", blanks=False), help="Tokens that a denoising pass feeds per sequence."),
    Flag(name="batch", type=tuple, metavar="N,N,...", panel="Decoding", shown_default="1,2,4,...,64",
         parser=parse_list(int, "4,8,16", blanks=False), help="Sequences that share a pass."),
    Flag(name="tpf", type=tuple, metavar="X,X,...", panel="Decoding", shown_default="1.5,2,3,5",
         parser=parse_list(float, "1.5,2", blanks=False),
         help="Tokens per forward of a sequence, as you measured them."),
    Flag(name="load", type=float, metavar="X", panel="Decoding",
         help="Tokens per second to deliver; tells how many machines it takes."),
)  # fmt: skip
OUTPUT_FLAGS = (
    Flag(name="json", type=bool, panel="Output", help="Print everything as JSON."),
    Flag(name="plot", type=Path, metavar="FILE", panel="Output", help="Draw the plan as a PNG, SVG or PDF."),
)  # fmt: skip


@takes(hub=HUB_FLAGS, question=QUESTION_FLAGS, machine=MACHINE_FLAGS, output=OUTPUT_FLAGS)
def command(
    model: Annotated[
        str | None, typer.Argument(help="Folder, GGUF file or hub id.", show_default="the embedded model")
    ] = None,
    *,
    hub: dict[str, Any],
    question: dict[str, Any],
    machine: dict[str, Any],
    output: dict[str, Any],
) -> None:
    """Checks the flags before anything is measured."""
    from anyorder.models.families import recognise
    from anyorder.models.load.survey import spec_with
    from anyorder.plan.plot import plot_plan
    from anyorder.plan.presets import MACHINES
    from anyorder.plan.report import plan
    from anyorder.plan.sizes import sizes_of

    dtype = question.pop("dtype", None)
    if dtype is not None and dtype not in BYTES:
        raise ParameterError(f"--dtype must be one of {', '.join(BYTES)}, got {dtype!r}")
    asked = _question(**question)
    with waiting("reading the config"):
        raw, adapter = read_model(model, **hub)
    spec = spec_with(recognise(raw), None, adapter)
    config = spec.parse(raw)
    number = dtype or (DATA_SHEET if machine.get("machine") in MACHINES else _published(raw))
    if machine.get("machine") in MACHINES and BYTES[number] > BYTES[DATA_SHEET] and "matrix_rate" not in machine:
        raise ParameterError(f"data sheets are read for products in {DATA_SHEET}; --dtype {number} needs --matrix-rate")
    found = plan(sizes_of(config, spec, BYTES[number]), _machine(config, number, **machine), asked)
    title = f"{model or 'SmolLM2-135M-Instruct'} in {number} on {found.machine.name}"
    if "plot" in output:
        plot_plan(found, output["plot"], title)
    if "json" in output:
        sys.stdout.write(json.dumps(found.as_dict(), indent=2) + "\n")
    else:
        show_plan(found, title)


def _question(
    *, block_length: tuple[int, ...] | None = None, batch: tuple[int, ...] | None = None,
    tpf: tuple[float, ...] | None = None, **rest: Any,
) -> Question:  # fmt: skip
    from anyorder.plan.report import Question

    named = {"rows": block_length, "batches": batch, "tokens_per_forward": tpf}
    return Question(**{name: value for name, value in named.items() if value is not None}, **rest)


def _published(raw: dict[str, Any]) -> str:
    named = raw.get("dtype") or raw.get("torch_dtype")
    return named if named in BYTES else "float32"


def _machine(
    config: ModelConfig, number: str, *, machine: str | None = None, save_machine: Path | None = None, **given: float
) -> Machine:
    """The named machine with what was given in the place of its figures."""
    from dataclasses import replace

    from anyorder.plan.machine import Machine
    from anyorder.plan.presets import MACHINES

    if machine is None and {"bandwidth", "matrix_rate"} <= given.keys():
        found = Machine(name="the given machine", bandwidth=given["bandwidth"], matrix_rate=given["matrix_rate"])
    elif machine in MACHINES:
        found = MACHINES[machine]
    elif machine in (None, "this"):
        found = _this_machine(config, number)
    elif Path(machine).exists():
        found = Machine.read(Path(machine))
    else:
        raise ParameterError(
            f"--machine must be this, a file, or one of {', '.join(MACHINES)}, got {machine!r}", param="machine"
        )
    changes: dict[str, Any] = {**given, **({"memory": int(given["memory"])} if "memory" in given else {})}
    if {"bandwidth", "matrix_rate"} & given.keys():
        changes["products"] = ()  # the figures that were given replace what was measured
    found = replace(found, **changes)
    if save_machine is not None:
        found.save(save_machine)
    return found


def _this_machine(config: ModelConfig, number: str) -> Machine:
    import torch

    from anyorder.models.load.place import choose_device
    from anyorder.plan.probe import measure

    if number in ("int8", "int4"):
        raise ParameterError(
            f"this machine is measured in torch's number formats; --dtype {number} needs --machine NAME"
        )
    device = choose_device("auto")
    name = f"this machine ({device}, {torch.get_num_threads()} threads)" if device.type == "cpu" else str(device)
    console = err_console()
    if not console.is_terminal:
        return measure(config, dtype=getattr(torch, number), device=device, name=name)
    with console.status("measuring this machine") as status:
        return measure(
            config,
            dtype=getattr(torch, number),
            device=device,
            name=name,
            report=lambda step: status.update(f"measuring this machine: {step}"),
        )
