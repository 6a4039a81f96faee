"""Flags of `anyorder sweep`: those of a decode take several values, separated by commas."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from anyorder.cli.flags import DECODE_FLAGS, Flag, parse_list

_NOT_SWEPT = ("top_logprobs", "measure_drift")  # they change what is reported, and its time, not the answer
SAMPLES, BUDGET, CONFIDENCE = 1000, 0.05, 0.95


def _swept(flag: Flag) -> Flag:
    if flag.parser is not None or flag.type not in (int, float, str):
        return flag
    return dataclasses.replace(
        flag, type=tuple, metavar=f"{flag.metavar},...", parser=parse_list(flag.type, "256,128"), shown_default=False
    )


SWEPT_FLAGS = tuple(_swept(flag) for flag in DECODE_FLAGS if flag.name not in _NOT_SWEPT)

ENDPOINT_FLAGS = (
    Flag(name="url", type=str, metavar="URL", panel="Endpoint",
         help="An OpenAI-compatible server, with its /v1, in place of a model here; --model is then a name, by default "
              "the first that it lists."),
    Flag(name="api_key_env", type=str, metavar="NAME", panel="Endpoint", shown_default="OPENAI_API_KEY",
         help="Environment variable with the key; it is sent to --url only."),
    Flag(name="surface", type=str, metavar="NAME", panel="Endpoint", shown_default="chat", help="chat or completions."),
    Flag(name="timeout", type=float, metavar="S", panel="Endpoint", shown_default="600",
         help="Seconds for one try of a request."),
    Flag(name="tries", type=int, metavar="N", panel="Endpoint", shown_default="5",
         help="Tries per request; pauses double, or are what the server asks for."),
    Flag(name="judge", type=str, metavar="URL", panel="Endpoint",
         help="A server, with its /v1, that marks the answers to your own prompts from 0 to 10."),
    Flag(name="judge_model", type=str, metavar="NAME", panel="Endpoint", shown_default="the first that it lists",
         help="The judge's model."),
    Flag(name="judge_key_env", type=str, metavar="NAME", panel="Endpoint", shown_default="JUDGE_API_KEY",
         help="Environment variable with the key; it is sent to --judge only."),
)  # fmt: skip
SWEEP_FLAGS = (
    Flag(name="task", type=str, metavar="NAME", panel="Sweep",
         help="A built-in task: `anyorder sweep --task list` lists them."),
    Flag(name="prompts", type=Path, metavar="FILE.jsonl", panel="Sweep",
         help='Prompts of your own: {"prompt": ...} or {"messages": ...} per line, with a "reference" or several.'),
    Flag(name="check", type=str, metavar="NAME", panel="Sweep", shown_default="contains",
         help="How an answer is compared with its reference: exact, contains, numeric (last number), regex, code (the "
              "reference is a Python test that is run behind the answer). Without references the answers of the first "
              "setting are the reference."),
    Flag(name="settings", type=Path, metavar="FILE.toml", panel="Sweep",
         help="Settings in a file: tables [decoding] for all, [grid] of lists, [[setting]] spelled out."),
    Flag(name="samples", type=int, metavar="N", panel="Sweep", shown_default=f"{SAMPLES}, or all of FILE.jsonl",
         help="Most prompts per setting."),
    Flag(name="budget", type=float, metavar="X", panel="Sweep", shown_default=str(BUDGET),
         help="How much worse than the best setting is good enough, in score (0 to 1)."),
    Flag(name="confidence", type=float, metavar="X", panel="Sweep", shown_default=str(CONFIDENCE),
         help="That all decisions are right together, at least."),
    Flag(name="full", type=bool, panel="Sweep",
         help="Measure every setting on every prompt, also those that are decided."),
    Flag(name="seams", type=bool, panel="Sweep",
         help="Ask the model which tokens of one pass contradict each other, too; it costs windows, and no time of an "
              "answer."),
    Flag(name="out", type=Path, metavar="DIR", panel="Sweep", shown_default="sweep-TASK",
         help="Folder of sweep.json, sweep.html and preset.toml. The same command goes on where it stopped."),
    Flag(name="fresh", type=bool, panel="Sweep", help="Begin anew, whatever the folder holds."),
    Flag(name="retry_failed", type=bool, panel="Sweep", help="Ask again for answers that failed."),
    Flag(name="json", type=bool, panel="Sweep", help="Print the figures as JSON instead of a table."),
)  # fmt: skip
