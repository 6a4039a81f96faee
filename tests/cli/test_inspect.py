"""`anyorder inspect`: the facts are those of the weights, and only the config is read for them."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from tests.cli.conftest import Cli, Loads

import anyorder
from anyorder.cli.inspect import facts_of, rows
from anyorder.errors import ParameterError
from anyorder.models.load.folder import read_config
from anyorder.models.shift import ShiftReport
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES
from anyorder.resolve import resolve

REFERENCE = Path(__file__).parents[1] / "reference"
FAMILIES = ("llada", "dream", "sdar", "fast_dllm_v2", "llada_moe", "llada2_moe", "mdlm", "bd3lm")
BUFFERS = ("rotary_emb.inv_freq", "sampling_eps_min", "sampling_eps_max")
# The published shape of SmolLM2-135M, whose size is known: 134,515,008.
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
}  # fmt: skip


def facts(cli: Cli, *args: str) -> dict[str, Any]:
    result = cli("inspect", *args, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parameter_count_is_that_of_the_weights(cli: Cli, family: str) -> None:
    with safe_open(REFERENCE / family / "model.safetensors", "pt") as weights:
        names = [name for name in weights.keys() if not name.endswith(BUFFERS)]  # noqa: SIM118 - no mapping
        stored = sum(weights.get_tensor(name).numel() for name in names)
    found = facts(cli, str(REFERENCE / family))
    assert (found["family"], found["parameters"]) == (family, stored)


def test_memory_is_that_of_weights_and_cache(cli: Cli) -> None:
    found = facts_of(SMOLLM2, context=1000)
    assert found["parameters"] == 134_515_008
    assert (found["dtype"], found["weight_bytes"]) == ("bfloat16", 2 * 134_515_008)
    assert found["kv_bytes"] == 2 * 30 * 3 * 64 * 1000 * 2
    assert facts_of(SMOLLM2, dtype="float32")["kv_bytes"] == 2 * 30 * 3 * 64 * 8192 * 4


def test_experts_are_shown(cli: Cli) -> None:
    found = facts(cli, str(REFERENCE / "llada2_moe"))
    idle = 2 * (8 - 3) * 3 * 64 * 32  # layers · experts that a token does not go to · their numbers
    assert found["active_parameters"] == found["parameters"] - idle
    assert found["experts"] == {
        "number": 8, "per_token": 3, "per_block": None, "width": 32, "layers": 2, "shared_width": 32, "groups": 4,
        "groups_per_token": 2,
    }  # fmt: skip
    lines = cli("inspect", str(REFERENCE / "llada2_moe")).out
    assert "8 of width 32 in 2 layers, 3 per token from 2 of 4 groups, and" in lines
    assert "of them active for a token" in lines
    raw = json.loads((REFERENCE / "llada2_moe" / "config.json").read_text("utf-8"))
    shared = dict(rows(facts_of({**raw, "expert_capacity": 4})))
    assert "3 per token from 4 that a block shares" in shared["experts"]
    assert facts(cli, str(REFERENCE / "llada"))["experts"] is None


@pytest.mark.parametrize("family", ["llada", "sdar", "mdlm", "bd3lm", "diffusion_gemma"])
def test_exactly_the_policies_that_it_takes_are_listed(family: str) -> None:
    model = anyorder.load(REFERENCE / family)
    taken = list[str]()
    for policy in POLICIES:
        with contextlib.suppress(ParameterError):
            taken.append(resolve(DecodeParams.of(policy=policy), model).policy or "")
    assert facts_of(read_config(REFERENCE / family))["policies"] == taken


def test_a_mask_that_is_the_last_row_and_no_mask_at_all() -> None:
    mdlm = anyorder.load(REFERENCE / "mdlm")
    lines = dict(rows(facts_of(read_config(REFERENCE / "mdlm"))))
    assert lines["mask token"] == f"id {mdlm.mask_token_id}, the last row"
    noisy = dict(rows(facts_of(read_config(REFERENCE / "diffusion_gemma"))))
    assert noisy["mask token"] == "none: open slots hold random tokens"


def test_a_mask_without_a_string_is_an_id() -> None:
    coder = facts_of({**SMOLLM2, "architectures": ["StableDiffcoderForCausalLM"]})
    assert dict(rows(coder))["mask token"] == "id 5"
    both = facts_of({**SMOLLM2, "architectures": ["NemotronLabsDiffusionModel"]})
    assert dict(rows(both))["attention"] == "causal, blocks both ways behind it"


def test_the_weights_are_not_needed(cli: Cli, tmp_path: Path) -> None:
    shutil.copy(REFERENCE / "sdar" / "config.json", tmp_path)
    found = facts(cli, str(tmp_path))
    assert found["modes"] == ["block"]
    assert found["exact_caches"] == ["none", "block"]


def test_the_table_has_every_fact_in_80_columns(cli: Cli) -> None:
    result = cli("inspect", str(REFERENCE / "llada"), "--context", "100", "--dtype", "bfloat16")
    assert result.code == 0
    for fact in ("llada", "parameters", "at 100 tokens in bfloat16", "bidirectional", "full (default)", "infill"):
        assert fact in result.out
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(("measured", "code"), [(True, 0), (None, 0), (False, 1)])
def test_check_loads_and_a_contradiction_is_code_1(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, loads: Loads, measured: bool | None, code: int
) -> None:
    shifted = {True: -1.0, None: -9.0, False: -30.0}[measured]
    report = ShiftReport(declared=True, shifted=shifted, unshifted=-9.0, vocab_size=10**9)
    monkeypatch.setattr("anyorder.models.shift.check_shift", lambda _model: report)
    folder = str(REFERENCE / "sdar")
    result = cli("inspect", folder, "--check")
    assert result.code == code, result.err
    assert loads.calls == [(folder, {})]
    assert "all tensors are there" in result.out
    assert json.loads(cli("inspect", folder, "--check", "--json").out)["check"]["measured"] is measured


def test_bad_input_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    sdar = str(REFERENCE / "sdar")
    for args, code, message in (
        ([str(tmp_path / "none")], 1, "no model at"),
        ([str(tmp_path)], 1, "GPT2LMHeadModel"),
        (["some/model"], 1, "some/model"),
        ([sdar, "--context", "0"], 2, "--context must be between 1 and"),
        ([sdar, "--dtype", "int3"], 2, "--dtype must be one of float32"),
    ):
        result = cli("inspect", *args)
        assert (result.code, result.out) == (code, "")
        assert message in result.err
        assert len(result.err.splitlines()) == 1


def test_weights_in_fewer_bits_are_foretold(cli: Cli) -> None:
    formats = facts_of(SMOLLM2)["formats"]
    head, layers = 49152 * 576, 134_515_008 - 49152 * 576
    assert formats["bfloat16"] == 2 * 134_515_008
    assert formats["int8"] == pytest.approx(2 * head + head + layers, rel=0.01)
    assert formats["int4"] == pytest.approx(2 * head + head + layers * 9 / 16, rel=0.01)


def test_what_a_prompt_may_hold_is_said(cli: Cli, tmp_path: Path) -> None:
    """By the config: a DiffusionGemma without a vision tower reads text."""
    raw = read_config(REFERENCE / "diffusion_gemma")
    whole, text = facts_of(raw), facts_of({name: part for name, part in raw.items() if name != "vision_config"})
    assert (whole["inputs"], text["inputs"]) == (["text", "images"], ["text"])
    assert whole["image_parameters"] > 0 == text["image_parameters"]
    assert whole["weight_bytes"] - text["weight_bytes"] == whole["image_parameters"] * 2
    assert facts(cli, str(REFERENCE / "llada"))["inputs"] == ["text"]
    assert "text, images" in cli("inspect", str(REFERENCE / "diffusion_gemma")).out
