"""The flags of `anyorder bench latency`, and what they say: kinds of requests, one user, others behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from anyorder.bench.latency import VOICE, Background, Case
from anyorder.bench.prompts import Range
from anyorder.bench.run import Amount
from anyorder.cli.bench_flags import BENCH_FLAGS, workload_of
from anyorder.cli.flags import Flag
from anyorder.errors import ParameterError

_KIND, _OUT = "Kinds", "Results"
KINDS: dict[str, dict[str, Any]] = {
    "text": {},
    "snapshots": {"diffusing": True},
    "voice": {},
    "realtime": {"realtime": True},
}
"""Kind -> fields of its requests; the last two are voice turns."""
SPOKEN = ("voice", "realtime")
_SHARED = ("warm_up", "timeout", "url", "api_key_env", "surface", "prompts", "random_words", "max_tokens",
           "workload_seed", "extra", "records", "fresh", "json")  # fmt: skip
OWN_FLAGS = (
    Flag(name="kinds", type=str, metavar="NAME,...", panel=_KIND, shown_default="all",
         help="Measured by turns: text, snapshots (`diffusing`), voice (turns), realtime (turns with `realtime`)."),
    Flag(name="requests", type=int, metavar="N", panel=_KIND, shown_default="16", help="Requests of each kind."),
    Flag(name="think", type=float, metavar="S", panel=_KIND, shown_default="0.5",
         help="Voice turns: seconds before the user speaks again, on average."),
    Flag(name="voice_tokens", type=str, metavar="N:N", panel=_KIND, shown_default="32",
         help="Voice turns: longest answer, drawn from this range."),
    Flag(name="load", type=int, metavar="N", panel=_KIND, shown_default="0",
         help="Other clients who stream answers all the time, in the background."),
    Flag(name="plot", type=Path, metavar="FILE", panel=_OUT,
         help="Draw text over time and percentiles, as .png or .svg."),
)  # fmt: skip
LATENCY_FLAGS = (*OWN_FLAGS, *(flag for flag in BENCH_FLAGS if flag.name in _SHARED))


def kinds_of(bench: Mapping[str, Any]) -> list[str]:
    """The kinds that are asked for."""
    kinds = bench.get("kinds", ",".join(KINDS)).split(",")
    if len(set(kinds)) < len(kinds) or not set(kinds) <= set(KINDS):
        raise ParameterError(
            f"`kinds` must be some of {', '.join(KINDS)}, each once, got {bench['kinds']!r}", param="kinds"
        )
    given = [name for name in ("think", "voice_tokens") if name in bench]
    if given and not set(kinds) & set(SPOKEN):
        flag = given[0].replace("_", "-")
        raise ParameterError(f"--{flag} is of voice turns; add voice or realtime to --kinds", param=given[0])
    return kinds


def latency_amount_of(bench: Mapping[str, Any]) -> Amount:
    """How much is sent of each kind."""
    return Amount(
        requests=bench.get("requests", 16), warm_up=bench.get("warm_up", 1), timeout_s=bench.get("timeout", 600.0)
    )


def cases_of(bench: Mapping[str, Any], model: str) -> list[Case]:
    """The kinds, each with what it asks for; the same prompts for the two kinds of streams, and for those of turns."""
    base = workload_of(bench, model)
    if own := sorted({"diffusing", "realtime", "stream_format"} & set(base.extra)):
        raise ParameterError(f"`extra` cannot hold {', '.join(own)}, which --kinds sets", param="extra")
    turns = replace(base, max_tokens=Range.parse(bench.get("voice_tokens", "32"), "voice_tokens"))
    if not {"prompts", "random_words"} & set(bench):
        turns = replace(turns, prompts=VOICE)
    cases: list[Case] = []
    for kind in kinds_of(bench):
        workload = turns if kind in SPOKEN else base
        think_s = bench.get("think", 0.5) if kind in SPOKEN else 0.0
        asked = replace(workload, extra={**base.extra, **KINDS[kind]})
        cases.append(Case(name=kind, workload=asked, think_s=think_s))
    return cases


def background_of(bench: Mapping[str, Any], model: str) -> Background | None:
    """The clients behind, who ask for plain text."""
    streams = bench.get("load", 0)
    if streams < 0:
        raise ParameterError(f"`load` must be at least 0, got {streams}", param="load")
    return Background(streams=streams, workload=workload_of(bench, model)) if streams else None
