"""Parity with published code: every recorded case of `tests/reference`, and of `ANYORDER_REFERENCE` if it is set.

Guards the models (logits), the decoders (the canvas before every pass), the policies and the caches at once.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyorder import reference
from anyorder.errors import DataError

FOLDERS = [Path(__file__).parent / "reference"]
if os.environ.get("ANYORDER_REFERENCE"):
    FOLDERS.append(Path(os.environ["ANYORDER_REFERENCE"]))

FAMILIES = [family for folder in FOLDERS for family in reference.families(folder)]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda folder: folder.name)
def results(request: pytest.FixtureRequest) -> list[reference.CaseResult]:
    return reference.run(request.param)


def test_every_recorded_case_is_reproduced(results: list[reference.CaseResult]) -> None:
    failed = [f"{r.family} {r.kind} {r.case}: {r.detail}" for r in results if not r.passed]
    assert not failed, "\n".join(failed)


def test_all_shipped_recordings_are_run() -> None:
    names = {folder.name for folder in reference.families(FOLDERS[0])}
    assert names == {
        "diffusion_gemma",
        "bd3lm",
        "mdlm",
        "llada",
        "dream",
        "sdar",
        "fast_dllm_v2",
        "llada_moe",
        "llada2_moe",
    }


def test_a_wrong_model_is_noticed(tmp_path: Path) -> None:
    """The suite must be able to fail: one changed weight breaks logits and runs."""
    from safetensors.torch import load_file, save_file

    source = FOLDERS[0] / "sdar"
    for name in ("config.json", "decode.json", "logits.safetensors"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    weights = load_file(source / "model.safetensors")
    weights["model.layers.1.self_attn.k_norm.weight"] = weights["model.layers.1.self_attn.k_norm.weight"] * 1.5
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    results = reference.run(tmp_path)
    assert not any(r.passed for r in results if r.kind == "logits")
    assert sum(not r.passed for r in results if r.kind == "decode") > len(results) // 2


def test_an_unknown_family_is_a_failure_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["SomethingElse"], "model_type": "llama"}')
    (tmp_path / "decode.json").write_text('{"cases": []}')
    (result,) = reference.run(tmp_path)
    assert not result.passed
    assert "SomethingElse" in result.detail


@pytest.mark.parametrize(("content", "part"), [(None, "no recorded family"), ("{", "no valid JSON")])
def test_damaged_folders_are_named(tmp_path: Path, content: str | None, part: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes((FOLDERS[0] / "sdar" / "config.json").read_bytes())
        (tmp_path / "decode.json").write_text(content)
    with pytest.raises(DataError, match=part):
        reference.run(tmp_path)
