"""The catalog of families: complete, and true of the code, test by test and ability by ability."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_moe import LLADA2, LLADA_MOE, QWEN3_MOE
from tests.models.tiny_models import LLAMA, write_checkpoint
from tests.training import runs

import anyorder
from anyorder.cli.family_view import facts_of_family
from anyorder.errors import ParameterError
from anyorder.models.adapter import product_sizes
from anyorder.models.catalog import CATALOG
from anyorder.models.families import FAMILIES
from anyorder.models.load import load
from anyorder.params import DecodeParams
from anyorder.resolve import resolve
from anyorder.training.trainer import Running, Trainer

ROOT = Path(__file__).parents[2]
RAW: dict[str, dict[str, Any]] = {
    "qwen3_moe": QWEN3_MOE,
    "sdar_moe": QWEN3_MOE,
    "llada_moe": LLADA_MOE,
    "llada2_moe": LLADA2,
}
"""Sizes of networks that are not Llama's; of a family with recordings they are those of its folder."""


def raw_of(family: str) -> dict[str, Any]:
    """A tiny config.json of the family."""
    recorded = ROOT / "tests" / "reference" / family / "config.json"
    if family not in RAW and recorded.exists():
        return json.loads(recorded.read_text("utf-8"))
    named = {"architectures": [FAMILIES[family].architectures[0]], "mask_token_id": 39}
    return {**RAW.get(family, LLAMA), **named}


def checkpoint(folder: Path, family: str) -> Path:
    return write_checkpoint(folder, raw_of(family))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_family_has_an_entry(family: str) -> None:
    assert family in CATALOG, f"add {family!r} to models/catalog.py: checkpoints, network, and the tests that prove it"
    assert CATALOG[family].checkpoints
    assert CATALOG[family].proof


def test_every_entry_has_a_family() -> None:
    assert not CATALOG.keys() - FAMILIES.keys()


def test_the_tests_that_are_named_exist() -> None:
    named = sorted({test for entry in CATALOG.values() for test in entry.proof})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *named]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    collected = result.stdout.splitlines()
    for test in named:
        assert any(line == test or line.startswith(f"{test}[") for line in collected), test


@pytest.mark.parametrize("family", list(CATALOG))
def test_adapters_are_taken_or_refused_as_it_says(family: str) -> None:
    config = FAMILIES[family].parse(raw_of(family))
    if CATALOG[family].adapter:
        assert product_sizes(config)
    else:
        with pytest.raises(ParameterError, match="adapter"):
            product_sizes(config)


@pytest.mark.parametrize("family", list(CATALOG))
def test_networks_are_what_it_says(family: str) -> None:
    config = FAMILIES[family].parse(raw_of(family))
    experts = config.moe is not None or getattr(config, "num_experts", 0) > 0
    assert experts == (CATALOG[family].network == "transformer with experts")


@pytest.mark.parametrize("family", list(CATALOG))
def test_drafts_are_taken_or_refused_as_it_says(tmp_path: Path, family: str) -> None:
    model = load(checkpoint(tmp_path, family), mask_token_id=39, verify=False)
    allowed = facts_of_family(FAMILIES[family])["drafts"]
    for draft in ("lookup", "ngram", "block"):
        params = DecodeParams.of(mode="causal", draft=draft)
        if draft in allowed:
            assert resolve(params, model).draft == draft
        else:
            with pytest.raises(ParameterError, match="causal"):
                resolve(params, model)


@pytest.mark.parametrize("family", [name for name, entry in CATALOG.items() if entry.quantised])
def test_it_is_loaded_in_fewer_bits(tmp_path: Path, family: str) -> None:
    folder = checkpoint(tmp_path, family)
    for scheme in facts_of_family(FAMILIES[family])["quantised"]:
        model = load(folder, quantize=scheme, mask_token_id=39, verify=False)
        assert len(anyorder.generate(model, [1, 2, 3], max_new_tokens=4, stop_ids=()).ids) == 4


@pytest.mark.parametrize("family", [name for name, entry in CATALOG.items() if entry.training])
def test_the_training_loop_takes_it(tmp_path: Path, family: str) -> None:
    model = load(checkpoint(tmp_path / "base", family), mask_token_id=39, verify=False, pack=False)
    before = {name: value.clone() for name, value in model.network.named_parameters()}
    running = Running(log_every=1, save_steps=100, measure_rate=False)
    run = Trainer(model.network, runs.Counting(), runs.denoise, runs.settings(steps=2), tmp_path / "run", running)
    run.run()
    after = dict(run.network.named_parameters())
    assert all(torch.isfinite(value).all() for value in after.values())
    still = [name for name in before if torch.equal(after[name], before[name])]
    unused = ("conditioning.",)  # reads what another pass has said, and this objective has one
    without_gradient = (".moe.bias",)  # chooses, and weighs nothing
    assert not [name for name in still if not (name.startswith(unused) or name.endswith(without_gradient))]
