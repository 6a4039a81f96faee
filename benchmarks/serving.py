"""Throughput of the server over HTTP, one request at a time against many at once: the default model, closed loop.

    python benchmarks/serving.py --plot docs/assets/serving.png     # needs the extras bench and server
    python benchmarks/serving.py --model FOLDER --concurrency 1 2 --requests 2 --tokens 4

Server and clients share one process and one machine. Prompts are the built-in ones, and no prefix is kept, so that no
load gains by an earlier one; every answer has all its tokens (`ignore_eos`). A lone request drafts by itself
(`ngram`), and is measured without drafts, too. The script fails if any request does, or if the largest load reaches
less than `--at-least` times the throughput of one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from common import machine, machine_line, save, table

import anyorder
from anyorder.bench.client import Target, model_name
from anyorder.bench.load import Closed
from anyorder.bench.plot import plot
from anyorder.bench.prompts import Range, Workload
from anyorder.bench.records import RecordFile
from anyorder.bench.run import Amount, run
from anyorder.bench.summary import Summary, summarise
from anyorder.server.background import serving
from anyorder.serving import ServiceSettings


def measured(target: Target, load: Closed, args: argparse.Namespace, *, draft: str) -> Summary:
    """One load; requests are three rounds of it, or `--requests` if that is more."""
    extra = {"ignore_eos": True, "diffusion": {"draft": draft}}
    name = asyncio.run(model_name(target))
    workload = Workload(model=name, max_tokens=Range(args.tokens, args.tokens), extra=extra)
    file = RecordFile(None, {})
    amount = Amount(requests=max(args.requests, 3 * load.concurrency), warm_up=load.concurrency)
    asyncio.run(run(target, workload, [load], amount, file))
    summary = summarise(load.name, file.records)
    if summary.errors or summary.uncounted:
        sys.exit(f"{load.name}: {summary.errors} failed, {summary.uncounted} without usage")
    print(f"{load.name}, draft {draft}: {summary.tokens_per_s:.1f} tokens/s", file=sys.stderr, flush=True)
    return summary


def row(summary: Summary, first: Summary, draft: str) -> list[object]:
    cells: list[object] = [summary.load + (", no drafts" if draft == "none" else ""), f"{summary.tokens_per_s:.1f}"]
    cells.append(f"{summary.tokens_per_s / first.tokens_per_s:.2f}×")
    for figures in (summary.ttft_s, summary.ttlt_s, summary.gap_s):
        cells.append("" if figures is None else f"{figures.p50:.2f} / {figures.p95:.2f}")
    return [*cells, f"{summary.tokens_per_forward.mean:.2f}" if summary.tokens_per_forward else ""]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--kv-bytes", type=int, default=400 << 20)
    parser.add_argument("--at-least", type=float, default=0.0)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    facts: dict[str, Any] = machine()
    model = anyorder.load(args.model)
    engine = ServiceSettings(kv_bytes=args.kv_bytes, max_running=max(args.concurrency), prefix_share=0.0)
    with serving(model, engine=engine) as server:
        target = Target(url=f"{server.url}/v1/")
        plain = measured(target, Closed(args.concurrency[0]), args, draft="none")
        sweep = [measured(target, Closed(count), args, draft="auto") for count in args.concurrency]
    head = ("load", "tokens/s", "times one", "first text, s, p50 / p95", "last text", "gap", "tokens/pass")
    rows = [row(plain, sweep[0], "none"), *(row(summary, sweep[0], "auto") for summary in sweep)]
    print(f"{machine_line(facts)}\n\n{table(head, rows)}")
    results = {"machine": facts, "tokens": args.tokens, "no_drafts": plain.as_dict()}
    save("serving", {**results, "loads": [summary.as_dict() for summary in sweep]}, args.out)
    if args.plot:
        plot(sweep, args.plot)
    reached = sweep[-1].tokens_per_s / max(sweep[0].tokens_per_s, plain.tokens_per_s)
    if reached < args.at_least:
        sys.exit(f"{sweep[-1].load} reaches {reached:.2f} times the throughput of one, wanted {args.at_least}")


if __name__ == "__main__":
    main()
