"""The flags of `anyorder bench serve`, and what they say: loads, amounts, requests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anyorder.bench.load import Closed, Load, Open
from anyorder.bench.prompts import BUILT_IN, Range, Workload
from anyorder.bench.run import Amount
from anyorder.cli.flags import Flag
from anyorder.cli.jsonl import read_jobs
from anyorder.errors import ParameterError

_LOAD, _ASK, _OUT = "Load", "Requests", "Results"
BENCH_FLAGS = (
    Flag(name="concurrency", type=str, metavar="N,N,...", panel=_LOAD, shown_default="1",
         help="Closed loop: clients at once; several are measured in turn."),
    Flag(name="rate", type=str, metavar="X,X,...", panel=_LOAD,
         help="Open loop: requests that arrive per second; several are measured in turn."),
    Flag(name="burstiness", type=float, metavar="X", panel=_LOAD, shown_default="1",
         help="Open loop: 1 arrives as a Poisson process, less in bursts, more evenly (a gamma distribution)."),
    Flag(name="requests", type=int, metavar="N", panel=_LOAD, shown_default="32, without --duration",
         help="Requests per load."),
    Flag(name="duration", type=float, metavar="S", panel=_LOAD,
         help="Seconds in which requests are sent, per load; what runs then may end."),
    Flag(name="warm_up", type=int, metavar="N", panel=_LOAD, shown_default="1", help="Requests before, not recorded."),
    Flag(name="timeout", type=float, metavar="S", panel=_LOAD, shown_default="600", help="Seconds for one request."),
    Flag(name="url", type=str, metavar="URL", panel=_ASK,
         help="The server, with its /v1; --model is then a name, by default the first that it lists."),
    Flag(name="api_key_env", type=str, metavar="NAME", panel=_ASK, shown_default="OPENAI_API_KEY",
         help="Environment variable with the key; it is sent to --url only."),
    Flag(name="surface", type=str, metavar="NAME", panel=_ASK, shown_default="chat", help="chat or completions."),
    Flag(name="prompts", type=Path, metavar="FILE.jsonl", panel=_ASK, shown_default="a dozen of our own",
         help='Prompts, one {"prompt": ...} or {"messages": ...} per line, asked in turn.'),
    Flag(name="random_words", type=str, metavar="N:N", panel=_ASK,
         help="Prompts of random words instead, as many as drawn from this range."),
    Flag(name="max_tokens", type=str, metavar="N:N", panel=_ASK, shown_default="64",
         help="Longest answer, drawn from this range."),
    Flag(name="workload_seed", type=int, metavar="N", panel=_ASK, shown_default="0",
         help="Of prompts, lengths and arrivals: same seed, same requests."),
    Flag(name="extra", type=str, metavar="JSON", panel=_ASK,
         help='Further fields of every request, as {"ignore_eos": true}.'),
    Flag(name="slo", type=str, metavar="NAME=S,...", panel=_OUT,
         help="Goodput: requests within limits in seconds, of ttft (first text), ttlt (last), gap (longest pause)."),
    Flag(name="records", type=Path, metavar="FILE.jsonl", panel=_OUT,
         help="A line per request; a run that was stopped goes on where it was."),
    Flag(name="fresh", type=bool, panel=_OUT, help="Forget the records that are there."),
    Flag(name="json", type=bool, panel=_OUT, help="Print the figures as JSON instead of a table."),
    Flag(name="plot", type=Path, metavar="FILE", panel=_OUT, help="Draw latency over throughput, as .png or .svg."),
)  # fmt: skip


def loads_of(bench: Mapping[str, Any]) -> list[Load]:
    """The loads that the flags ask for."""
    if "rate" in bench and "concurrency" in bench:
        raise ParameterError("--rate is an open loop and --concurrency a closed one; give one of them", param="rate")
    if "rate" in bench:
        shape, seed = bench.get("burstiness", 1.0), bench.get("workload_seed", 0)
        return [Open(rate, shape, seed) for rate in _numbers(bench["rate"], float, "rate")]
    if "burstiness" in bench:
        raise ParameterError("--burstiness is of arrivals; give --rate", param="burstiness")
    return [Closed(count) for count in _numbers(bench.get("concurrency", "1"), int, "concurrency")]


def _numbers(text: str, kind: type[Any], param: str) -> list[Any]:
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"`{param}` must be numbers like 1,2,4, got {text!r}", param=param) from None
    if len(set(numbers)) < len(numbers):
        raise ParameterError(f"`{param}` names a load twice: {text}", param=param)
    return numbers


def amount_of(bench: Mapping[str, Any]) -> Amount:
    """How much is sent."""
    duration = bench.get("duration")
    return Amount(
        requests=bench.get("requests", 32 if duration is None else None),
        duration_s=duration,
        warm_up=bench.get("warm_up", 1),
        timeout_s=bench.get("timeout", 600.0),
    )


def workload_of(bench: Mapping[str, Any], model: str) -> Workload:
    """What is asked for."""
    surface = bench.get("surface", "chat")
    if surface not in ("chat", "completions"):
        raise ParameterError(f"`surface` must be chat or completions, got {surface!r}", param="surface")
    if "prompts" in bench and "random_words" in bench:
        raise ParameterError("--prompts and --random-words are two kinds of prompts; give one", param="prompts")
    prompts = [job.prompt for job in read_jobs(bench["prompts"])] if "prompts" in bench else BUILT_IN
    return Workload(
        model=model,
        surface=surface,
        prompts=prompts,
        words=Range.parse(bench["random_words"], "random_words") if "random_words" in bench else None,
        max_tokens=Range.parse(bench.get("max_tokens", "64"), "max_tokens"),
        seed=bench.get("workload_seed", 0),
        extra=_object(bench.get("extra", "{}")),
    )


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ParameterError(f"`extra` must be a JSON object, got {text!r}", param="extra")
    if reserved := sorted({"model", "stream", "stream_options"} & set(found)):
        raise ParameterError(f"`extra` cannot hold {', '.join(reserved)}, which the benchmark sets", param="extra")
    return found
