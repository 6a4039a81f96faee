"""Peak memory while loading. Guards against a second resident copy of the weights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.test_moe import LLADA2
from tests.models.tiny_models import LLAMA

from anyorder.models.facts import describe
from anyorder.models.families import recognise
from anyorder.models.load.write import write_safetensors
from anyorder.models.quantised import SCHEMES

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

PROGRAM = """
import sys, torch
from anyorder.models.load import load
import anyorder.models.load.build

def status(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return int(line.split()[1]) * 1024

before = status("VmRSS")
model = load(sys.argv[1], device="cpu", **eval(sys.argv[2]))
print(status("VmHWM") - before, status("VmRSS") - before)
"""

MODEL: dict[str, Any] = {
    **LLAMA,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 10,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 16000,
}


EXPERTS: dict[str, Any] = {
    **LLADA2,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "moe_intermediate_size": 256,
    "num_hidden_layers": 6,
    "num_experts": 16,
    "head_dim": 64,
    "num_attention_heads": 8,
    "vocab_size": 16000,
    "mask_token_id": 15999,
}
CODE = 25_000_000
"""Bytes that a first load takes whatever it loads, with room for the measurement."""
KINDS = {
    "tied": {**MODEL, "tie_word_embeddings": True},
    "untied": {**MODEL, "tie_word_embeddings": False},
    "experts": EXPERTS,
}


@pytest.fixture(scope="module", params=list(KINDS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 200 MB of float32."""
    folder = tmp_path_factory.mktemp("model")
    raw = KINDS[request.param]
    spec = recognise(raw)
    shapes = {name: place.shape for name, place in spec.weight_names(spec.parse(raw)).items()}
    write_safetensors(
        folder / "model.safetensors", shapes, torch.float32, lambda name: torch.randn(shapes[name]) * 0.02
    )
    (folder / "config.json").write_text(json.dumps(raw), "utf-8")
    return folder


@pytest.mark.parametrize("name", SCHEMES)
def test_few_bits_keep_what_was_foretold(folder: Path, name: str) -> None:
    """Beside the embedding table, which stays in the file, and some megabytes of code that loading reads."""
    raw = json.loads((folder / "config.json").read_text("utf-8"))
    spec = recognise(raw)
    config = spec.parse(raw)
    foretold = describe(config, spec, dtype=torch.float32, scheme=SCHEMES[name]).weight_bytes
    table = 4 * config.vocab_size * config.hidden_size
    options = repr({"quantize": name, "verify": False})
    command = [sys.executable, "-c", PROGRAM, str(folder), options]
    peak, after = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    print(f"foretold {foretold}, after {after}, peak {peak}")
    assert foretold - table <= after <= foretold - table + CODE


@pytest.mark.parametrize("options", [{}, {"pack": False}])
def test_peak_memory_stays_near_the_size_of_the_weights(folder: Path, options: dict[str, Any]) -> None:
    weights = (folder / "model.safetensors").stat().st_size
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), repr(options)], capture_output=True, text=True, check=True
    )
    peak, after = map(int, program.stdout.split())
    print(f"peak {peak / weights:.3f}, after {after / weights:.3f} times the weights")
    assert peak <= 1.15 * weights, f"peak {peak / weights:.3f}, after {after / weights:.3f} times the weights"
