"""Loads of published shapes with few layers, some gigabytes each: memory is what `inspect` foretold.

Guards against matrices that are not rounded, second copies of the weights, and sizes that a config does not tell.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@pytest.mark.parametrize(
    ("model", "layers", "dtypes"),
    [
        ("llada-8b", 3, ("bfloat16", "int8", "int8-dynamic", "int4")),
        ("llada2-mini", 3, ("int8", "int4")),
        ("diffusiongemma-26b-a4b", 2, ("bfloat16", "int8", "int4")),
    ],
)
def test_a_load_takes_what_was_foretold(model: str, layers: int, dtypes: tuple[str, ...], tmp_path: Path) -> None:
    if model.startswith("diffusiongemma"):
        pytest.importorskip("transformers.models.gemma4")
    out = tmp_path / "records.jsonl"
    command = [sys.executable, str(ROOT / "benchmarks" / "load_memory.py"), "--models", model, "--dtypes", *dtypes]
    command += ["--layers", str(layers), "--out", str(out), "--files", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    if not all(record["fits"] for record in records):
        pytest.skip("too little free memory")
    assert [record["dtype"] for record in records] == list(dtypes)
    for record in records:
        said = record["foretold"]
        assert record["after"] == pytest.approx(said["weights"] - said["table"], rel=0.05), record
        assert record["peak"] <= 1.15 * said["weights"], record
