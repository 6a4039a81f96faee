"""The roofline by hand: what a pass costs, where denoising stops paying, what fits, what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.errors import ParameterError
from anyorder.models.config import ModelConfig
from anyorder.models.families import recognise
from anyorder.plan.decide import Batches, fleet, million_tokens, paying, sharded
from anyorder.plan.machine import Machine
from anyorder.plan.presets import MACHINES
from anyorder.plan.probe import _rising, measure  # pyright: ignore[reportPrivateUsage]
from anyorder.plan.report import Question, plan
from anyorder.plan.roofline import Pass, Roofline
from anyorder.plan.sizes import Experts, Sizes, sizes_of

BOX = Machine(name="box", bandwidth=1e9, matrix_rate=100e9, memory=10**9, price=3.6)
"""Reads a number of one byte in 1 ns, and multiplies it with 50 rows in that time."""
DENSE = Sizes(dense=10**8, head=10**7, parameters=12 * 10**7, layers=10, kv_size=1000, query_size=100, itemsize=1.0)
ROOF = Roofline(sizes=DENSE, machine=BOX)


def test_a_causal_pass_reads_everything_once() -> None:
    assert ROOF.seconds(Pass(context=100, wanted=1)) == pytest.approx(0.1 + 0.01 + 100 * 1000 / 1e9)


def test_a_block_is_free_up_to_the_ridge() -> None:
    assert ROOF.seconds(Pass(rows=50)) == pytest.approx(ROOF.seconds(Pass(rows=1)))
    assert ROOF.seconds(Pass(rows=100)) == pytest.approx(0.1 * 2 + 0.01 * 50.5 / 50)
    assert ROOF.seconds(Pass(batch=25, rows=4)) == pytest.approx(ROOF.seconds(Pass(rows=100, wanted=62.5)))


def test_attention_reads_or_multiplies() -> None:
    """1000 numbers per column against 4 * 100 * 10 operations per row and column."""
    reading = ROOF.seconds(Pass(context=1000)) - ROOF.seconds(Pass())
    assert reading == pytest.approx(1000 * 1000 / 1e9)
    many = ROOF.seconds(Pass(rows=50, context=1000)) - ROOF.seconds(Pass(rows=50))
    assert many == pytest.approx(50 * 1000 * 4000 / 100e9)


def test_what_is_measured_replaces_the_rates() -> None:
    box = replace(BOX, products=((1, 2e-9), (4, 3e-9)), layer_s=1e-3, window_s=1e-4, token_s=1e-5)
    assert [box.weight_s(rows, 1) for rows in (1, 2, 4, 8)] == pytest.approx([2e-9, 7e-9 / 3, 3e-9, 6e-9])
    rest = Roofline(sizes=replace(DENSE, dense=0, head=0), machine=box)
    assert rest.seconds(Pass(batch=2, rows=4)) == pytest.approx(10 * (1e-3 + 2 * 1e-4 + 8 * 1e-5))


def test_denoising_pays_up_to_a_batch() -> None:
    """Without head and attention: a block of 8 costs 8b/50 from b = 7 on, and a token the same from b = 50 on."""
    bare = Roofline(sizes=replace(DENSE, head=0, kv_size=0, query_size=0), machine=BOX)
    ask = {"rows": 8, "context": 8}
    assert paying(bare, **ask, tokens_per_forward=2.0) == Batches(1, 12)
    assert paying(bare, **ask, tokens_per_forward=0.9) is None
    assert paying(bare, **ask, tokens_per_forward=8.0) == Batches(1, None)


def test_experts_may_make_it_pay_in_the_middle_only() -> None:
    """One row reads 1 expert of 64, sixteen rows nearly as many as rows; many sequences read all of them anyhow."""
    experts = Experts(count=64, top_k=1, weights=10**6)
    moe = Roofline(sizes=replace(DENSE, dense=10**6, head=0, kv_size=0, experts=experts), machine=BOX)
    found = paying(moe, rows=16, context=16, tokens_per_forward=2.0)
    assert found is not None
    assert found.first > 1
    assert moe.break_even(Pass(batch=found.first - 1, rows=16, context=16)) > 2


@given(st.integers(1, 64), st.floats(1, 1000))
def test_experts_hit_are_between_one_token_and_all(top_k: int, tokens: float) -> None:
    hit = Experts(count=64, top_k=top_k, weights=1).hit(tokens)
    assert top_k - 1e-9 <= hit <= 64 + 1e-9
    assert hit <= top_k * tokens + 1e-9


def test_price_of_a_million() -> None:
    assert million_tokens(1000, 3.6) == pytest.approx(1.0)  # 1000 s at a thousandth a second


def test_a_fleet_holds_the_model_and_carries_the_load() -> None:
    small = replace(BOX, memory=70_000_000)  # 120 MB of weights need two
    found = fleet(DENSE, small, rows=8, context=100, tokens_per_forward=2.0, load=1000, most_batch=16)
    assert found.shards == 2
    assert found.batch == 16
    each = Roofline(sizes=DENSE, machine=sharded(small, 2)).tokens_per_second(Pass(batch=16, rows=8, context=100), 2.0)
    assert found.copies == -(-1000 // each)
    assert found.tokens_per_second >= 1000
    assert found.accelerators == 2 * found.copies


def test_a_plan_leaves_out_what_does_not_fit() -> None:
    question = Question(context=10_000, rows=(4, 8), batches=(1, 64, 128), tokens_per_forward=(2.0, 6.0))
    found = plan(DENSE, BOX, question)  # (10^9 - 1.2 * 10^8) / 10^7 = 88 sequences
    assert {point.batch for point in found.points} == {1, 64}
    assert found.causal.best_batch == 64
    assert [(v.rows, v.tokens_per_forward) for v in found.verdicts] == [(4, 2.0), (8, 2.0), (8, 6.0)]
    assert [v.tokens_per_forward for v in found.best()] == [2.0, 6.0]
    assert json.loads(json.dumps(found.as_dict()))["points"][0]["break_even"] > 0
    with pytest.raises(ParameterError, match=r"take 1\.1 GB and the machine has 1\.0"):
        plan(DENSE, BOX, replace(question, context=100_000, batches=(10,)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": (0,)}, "`rows` must be above 0"),
        ({"batches": ()}, "`batches` must be above 0"),
        ({"context": 16}, "a block of 32 rows is longer than the context of 16"),
        ({"load": -1.0}, "`load` must be above 0"),
    ],
)
def test_impossible_questions_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Question(**changes)  # pyright: ignore[reportArgumentType]


def test_a_load_needs_a_memory() -> None:
    with pytest.raises(ParameterError, match="give `memory`"):
        plan(DENSE, replace(BOX, memory=None), Question(load=10))


def test_machines_are_kept(tmp_path: Path) -> None:
    box = replace(BOX, products=((1, 2e-9), (4, 3e-9)), measured=True)
    box.save(tmp_path / "box.json")
    assert Machine.read(tmp_path / "box.json") == box
    (tmp_path / "wrong.json").write_text('{"name": "x", "bandwidth": 1, "colour": "red"}')
    with pytest.raises(ParameterError, match="must be a JSON object with name, bandwidth and matrix_rate"):
        Machine.read(tmp_path / "wrong.json")
    with pytest.raises(ParameterError, match="cannot read a machine"):
        Machine.read(tmp_path / "none.json")
    with pytest.raises(ParameterError, match="`bandwidth` must be above 0"):
        Machine(name="x", bandwidth=0, matrix_rate=1)


def test_presets_are_data_sheets() -> None:
    assert all(not machine.measured and machine.memory for machine in MACHINES.values())
    assert MACHINES["h200"].bandwidth == 4.8e12


def test_sizes_are_those_of_the_checkpoint() -> None:
    raw = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    }  # fmt: skip
    spec = recognise(raw)
    found = sizes_of(spec.parse(raw), spec, 2.0)
    layer = 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert found.parameters == 2 * layer + 64 + 100 * 64
    assert found.dense == 2 * layer + 64
    assert found.head == 6400
    assert found.kv_bytes == 2 * 2 * 32 * 2.0
    assert found.weight_bytes == 2.0 * found.parameters


def test_fewer_rows_never_take_longer() -> None:
    assert _rising([(1, 5.0), (2, 3.0), (4, 4.0), (8, 6.0)]) == [(1, 3.0), (2, 3.0), (4, 4.0), (8, 6.0)]


def test_a_machine_is_measured_with_the_shapes_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the real passes; the times themselves are the machine's."""
    monkeypatch.setattr("anyorder.plan.probe.SECONDS", 0.0)
    monkeypatch.setattr("anyorder.plan.probe.ROWS", (1, 2, 4))
    monkeypatch.setattr("anyorder.rates.SECONDS", 0.0)
    config = ModelConfig(
        hidden_size=64, intermediate_size=96, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=16, vocab_size=50,
        max_context=128, rms_norm_eps=1e-5, qk_norm=True, qkv_bias=True,
    )  # fmt: skip
    steps: list[str] = []
    found = measure(config, dtype=torch.float32, device=torch.device("cpu"), name="here", report=steps.append)
    assert found.measured
    assert [rows for rows, _ in found.products] == [1, 2, 4]
    assert found.bandwidth == 4 / found.products[0][1]
    assert min(found.layer_s, found.token_s, found.window_s) >= 0
    assert steps[0] == "a large matrix product"
    assert len(steps) == 5


@pytest.mark.parametrize("family", ["bd3lm", "diffusion_gemma", "llada2_moe"])
def test_a_network_of_other_layers_is_measured_by_its_sizes(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against "only plain transformers take an adapter", which nobody had asked for."""
    monkeypatch.setattr("anyorder.plan.probe.SECONDS", 0.0)
    monkeypatch.setattr("anyorder.plan.probe.ROWS", (1, 2))
    monkeypatch.setattr("anyorder.plan.probe.PROBE_BYTES", 1)
    monkeypatch.setattr("anyorder.rates.SECONDS", 0.0)
    raw = json.loads((Path(__file__).parents[1] / "reference" / family / "config.json").read_text("utf-8"))
    config = recognise(raw).parse(raw)
    assert measure(config, dtype=torch.float32, device=torch.device("cpu"), name="here").measured
