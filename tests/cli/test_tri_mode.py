"""Nemotron-Labs-Diffusion's three ways of decoding the same weights: from Python, the command line and over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.conftest import Cli, Loads
from tests.engine.talk import talking
from tests.server.live import live

import anyorder

LENGTH = 24
PROMPT = "7 8 9 10 11"
WAYS: dict[str, dict[str, Any]] = {
    "blocks": {"mode": "block", "threshold": 0.1},
    "causal": {"mode": "causal", "draft": "none"},
    "blocks verified by the causal mode": {"mode": "causal", "draft": "block"},
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_every_way_in_gives_the_same_text(way: dict[str, Any], cli: Cli, loads: Loads) -> None:
    loads.model = talking("nemotron_labs_diffusion")
    answer = anyorder.generate(loads.model, PROMPT, max_new_tokens=LENGTH, stop_ids=(), **way)
    flags = [part for name, value in way.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    shown = cli("generate", PROMPT, "--raw", "--max-new-tokens", str(LENGTH), "--stop-ids", "", "--json", *flags)
    assert shown.code == 0, shown.err
    told = json.loads(shown.out)
    assert (tuple(told["ids"]), told["stats"]["passes"]) == (answer.ids, answer.stats.passes)
    with live(loads.model) as server, server.http() as http:
        body = {"model": server.model, "prompt": PROMPT, "max_tokens": LENGTH, "temperature": 0, "ignore_eos": True}
        sent = http.post("/v1/completions", json={**body, "diffusion": way}).json()
    assert sent["choices"][0]["text"].split() == answer.text.split()
    assert sent["usage"]["diffusion"]["passes"] == answer.stats.passes


def test_the_three_ways_differ_in_passes_and_two_of_them_in_nothing_else() -> None:
    model = talking("nemotron_labs_diffusion")
    blocks, causal, both = (
        anyorder.generate(model, PROMPT, max_new_tokens=LENGTH, stop_ids=(), **way) for way in WAYS.values()
    )
    assert causal.ids == both.ids != blocks.ids
    assert causal.stats.passes == LENGTH
    assert blocks.stats.passes < LENGTH
