"""`anyorder generate --seams`: what is shown under an answer, and what stands in its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from tests.cli.conftest import Cli, Loads

from anyorder.cli.seams_view import seams_text
from anyorder.models.families import FAMILIES
from anyorder.seams import Pair, PassGap, SeamReport


def decode(ids: Sequence[int]) -> str:
    return "".join(f" w{token}" for token in ids)


def test_json_holds_the_report(cli: Cli) -> None:
    flags = ("--mode", "block", "--threshold", "0", "--block-length", "4", "--max-new-tokens", "8", "--raw")
    answer = json.loads(cli("generate", "Hi", *flags, "--json", "--seams").out)
    passes = [slot["pass"] for slot in answer["trace"]]
    together = {number for number in passes if passes.count(number) > 1}
    assert together
    assert {each["pass_index"] for each in answer["seams"]["passes"]} == together
    assert answer["seams"]["gap"] == sum(each["gap"] for each in answer["seams"]["passes"])


def test_the_terminal_tells_of_it_on_stderr(cli: Cli) -> None:
    flags = ("--mode", "block", "--threshold", "0", "--block-length", "4", "--max-new-tokens", "8", "--raw")
    plain, with_seams = cli("generate", "Hi", *flags), cli("generate", "Hi", *flags, "--seams")
    assert with_seams.out == plain.out
    assert "slots were committed together in" in with_seams.err
    assert "no seams: no pass committed several slots" in cli("generate", "Hi", "--mode", "causal", "--seams").err


def test_seams_are_not_for_a_batch(cli: Cli) -> None:
    result = cli("generate", "--input", "x.jsonl", "--output", "y.jsonl", "--seams")
    assert result.code == 2
    assert "drop --seams" in result.err


def test_a_model_that_has_none_says_so_before_it_answers(cli: Cli, loads: Loads) -> None:
    loads.model = replace(loads.model, spec=FAMILIES["diffusion_gemma"])
    result = cli("generate", "Hi", "--seams")
    assert (result.code, result.out) == (2, "")
    assert "decides its slots anew in every pass, so that no pass is final: no `seams`" in " ".join(result.err.split())


def test_the_worst_pairs_are_marked_in_their_text() -> None:
    pairs = (Pair((2, 3), (2, 3), -4.0), Pair((2, 30), (2, 30), -1.5), Pair((3, 30), (3, 30), 0.5))
    report = SeamReport(passes=(PassGap(7, (2, 3, 30), -2.0, -7.0, pairs),), forwards=5)
    lines = seams_text(report, tuple(range(30)), decode).plain.splitlines()
    assert lines[0] == "3 slots were committed together in 1 pass; gap -5.00 nats, worst pass -5.00"
    assert lines[1] == "  pass 7     -4.00 nats   w0 w1[ w2][ w3] w4 w5 w6 w7 w8 w9"
    assert lines[2].endswith(" w8... w24 w25 w26 w27 w28 w29[·]"), "the token that ended the answer"
    assert len(lines) == 3, "a pair that agrees is no seam"


def test_no_contradictions_are_said_to_be_none() -> None:
    report = SeamReport(passes=(PassGap(0, (0, 1), -2.0, -1.0, (Pair((0, 1), (0, 1), 1.0),)),), forwards=3)
    assert "no two tokens of a pass contradict each other" in seams_text(report, (0, 1), decode).plain
