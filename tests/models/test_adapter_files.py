"""Adapters on disk, against peft: what it wrote gives its logits, and it reads what we wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from tests.models.tiny_models import LLAMA, causal, write_checkpoint
from torch import Tensor
from transformers import AutoModelForCausalLM

from anyorder.errors import ModelError, ParameterError, WeightsError
from anyorder.models.adapter import Adapter
from anyorder.models.attention import attend_alone
from anyorder.models.load import load
from anyorder.models.load.adapter import CONFIG, WEIGHTS, write_adapter
from anyorder.models.loaded import LoadedModel

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # peft asks for it
MASK = 3
IDS = torch.tensor([5, 6, MASK, 8, MASK, 9])
EVERYTHING = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def base(folder: Path) -> Path:
    return write_checkpoint(folder / "base", LLAMA)


def by_peft(folder: Path, modules: list[str], **options: Any) -> tuple[Path, Tensor]:
    """An adapter with random numbers that peft wrote, and peft's logits."""
    torch.manual_seed(1)
    network = AutoModelForCausalLM.from_pretrained(base(folder), dtype=torch.float32)
    config = peft.LoraConfig(r=3, lora_alpha=5, target_modules=modules, task_type="CAUSAL_LM", **options)
    adapted = peft.get_peft_model(network, config)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn(parameter.shape) * (1.0 if "token" in name else 0.2))
        logits = adapted(input_ids=IDS[None]).logits[0]
    adapted.save_pretrained(str(folder / "adapter"))
    return folder / "adapter", logits


def logits(model: LoadedModel, *, on: bool = True) -> Tensor:
    assert model.adapter is not None
    network, adapted = model.network, model.adapter.on() if on else None
    return network.head(network(IDS, torch.arange(len(IDS)), attend_alone(causal(len(IDS))), None, adapted))


def written(folder: Path, *, block_length: int | None = 4) -> tuple[Path, Adapter]:
    """An adapter with random numbers that we wrote."""
    model = load(base(folder), pack=False)
    adapter = Adapter(model.config, rank=2, alpha=3, mask_token_id=MASK)
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.2)
    names = model.spec.weight_names(model.config)
    write_adapter(folder / "ours", adapter, names, base=model.source, block_length=block_length, dtype=torch.float32)
    return folder / "ours", adapter


@pytest.mark.parametrize("modules", [EVERYTHING, ["q_proj", "v_proj"], ["down_proj", "up_proj"]])
@pytest.mark.parametrize("masks", [[MASK], {"embed_tokens": [MASK]}, None])
def test_what_peft_wrote_gives_its_logits(tmp_path: Path, modules: list[str], masks: Any) -> None:
    folder, want = by_peft(tmp_path, modules, trainable_token_indices=masks)
    model = load(base(tmp_path), adapter=folder)
    torch.testing.assert_close(logits(model), want, rtol=1e-4, atol=1e-4)
    assert model.mask_token_id == (MASK if masks else None)


def test_peft_reads_what_we_wrote(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    network = AutoModelForCausalLM.from_pretrained(base(tmp_path), dtype=torch.float32)
    with torch.no_grad():
        want = peft.PeftModel.from_pretrained(network, str(folder))(input_ids=IDS[None]).logits[0]
    torch.testing.assert_close(logits(load(base(tmp_path), adapter=folder)), want, rtol=1e-4, atol=1e-4)


def test_what_we_wrote_comes_back(tmp_path: Path) -> None:
    """The copies of a shared A are shared again."""
    folder, adapter = written(tmp_path)
    model = load(folder)
    assert model.adapter is not None
    got = dict(model.adapter.named_parameters())
    assert got.keys() == dict(adapter.named_parameters()).keys()
    assert all(torch.equal(got[name], value) for name, value in adapter.named_parameters())
    assert model.block_length == 4
    assert model.mask_token_id == MASK
    assert model.source == str(folder)


def test_off_it_is_the_base(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    with_one, without = load(base(tmp_path), adapter=folder), load(base(tmp_path), adapter=False)
    assert without.adapter is None
    assert not torch.equal(logits(with_one), logits(with_one, on=False))
    network = without.network
    bare = network.head(network(IDS, torch.arange(len(IDS)), attend_alone(causal(len(IDS)))))
    assert torch.equal(logits(with_one, on=False), bare)


def test_arguments_come_before_the_adapter(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    assert load(folder, block_length=8).block_length == 8
    with pytest.raises(ParameterError, match="must be 3, which the adapter was trained with, got 5"):
        load(folder, mask_token_id=5)
    with pytest.raises(ParameterError, match="is an adapter itself"):
        load(folder, adapter=folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("peft_type", "IA3"),
        ("use_dora", True),
        ("use_rslora", True),
        ("bias", "all"),
        ("modules_to_save", ["lm_head"]),
        ("rank_pattern", {"q_proj": 4}),
        ("trainable_token_indices", [1, 2]),
        ("r", "8"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(tmp_path: Path, field: str, value: Any) -> None:
    folder, _ = written(tmp_path)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    (folder / CONFIG).write_text(json.dumps({**config, field: value}), "utf-8")
    with pytest.raises(ModelError, match=rf"{CONFIG}: .*{field}"):
        load(base(tmp_path), adapter=folder)


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    wider = write_checkpoint(tmp_path / "wider", {**LLAMA, "intermediate_size": 64})
    shallower = write_checkpoint(tmp_path / "shallower", {**LLAMA, "num_hidden_layers": 1})
    with pytest.raises(ModelError, match=r"has shape \[48, 2\], this model needs \[64, 2\]"):
        load(wider, adapter=folder)
    with pytest.raises(ModelError, match="belong to no matrix that can be adapted"):
        load(shallower, adapter=folder)


def test_damage_is_named(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[:-10])
    with pytest.raises(WeightsError, match="truncated"):
        load(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(WeightsError, match=f"has no {WEIGHTS}"):
        load(folder)
    (folder / CONFIG).unlink()
    with pytest.raises(ModelError, match=f"has no {CONFIG}"):
        load(base(tmp_path), adapter=folder)
    with pytest.raises(ModelError, match="no adapter at 'nowhere'"):
        load(base(tmp_path), adapter="nowhere")


def test_an_adapter_without_a_base_needs_one(tmp_path: Path) -> None:
    folder, _ = written(tmp_path)
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    (folder / CONFIG).write_text(json.dumps({**config, "base_model_name_or_path": None}), "utf-8")
    with pytest.raises(ModelError, match="names no base"):
        load(folder)
    assert load(base(tmp_path), adapter=folder).adapter is not None
