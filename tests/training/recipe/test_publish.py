"""What is published computes what was trained, and the base's files come along."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.models.tiny_models import LLAMA, logits, write_checkpoint
from tests.training.corpus import SIZE, TEXT_END
from tests.training.recipe.tiny import RAW, small, write_model, write_own
from torch import Tensor, nn

from anyorder.errors import ModelError, ParameterError
from anyorder.models.attention import attend_alone
from anyorder.models.families.converted import KEY
from anyorder.models.load import load
from anyorder.models.loaded import LoadedModel
from anyorder.training.recipe.folder import place_model
from anyorder.training.recipe.network import network_of
from anyorder.training.recipe.plan import Plan, look, plan
from anyorder.training.recipe.publish import publisher
from anyorder.training.recipe.read import check, parse, shipped
from anyorder.training.trainee import Trainee

IDS = torch.tensor([5, 6, 7, 3, 8])


def planned(tmp_path: Path, recipe: str, *changes: str, raw: Mapping[str, Any] = RAW) -> Plan:
    model, own = tmp_path / "model", tmp_path / "own.jsonl"
    write_model(model, raw)
    write_own(own)
    exact = 'precision.publish="float32"'
    checked = check(parse(shipped()[recipe], recipe, [*small(model, own), exact, *changes]), recipe)
    return plan(checked, look(checked))


def trained(made: Plan) -> tuple[nn.Module, dict[str, Tensor]]:
    """The network after some training: every trainable number is another one."""
    network = network_of(made.recipe, made.found, made.mask, torch.device("cpu"))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for value in network.parameters():
            if value.requires_grad:
                value += 0.05 * torch.randn(value.shape, generator=generator)
    return network, {name: value.detach() for name, value in network.named_parameters() if value.requires_grad}


def published(made: Plan, weights: Mapping[str, Tensor], folder: Path) -> LoadedModel:
    folder.mkdir()
    place_model(folder, publisher(made.recipe, made.found, made.mask), weights)
    return load(folder, pack=False, verify=False)


def on_everywhere(network: nn.Module, ids: Tensor) -> Tensor:
    assert isinstance(network, Trainee)
    return network.head(network(ids, torch.arange(len(ids)), attend_alone(None), torch.arange(len(ids))))


UNTIED = {**RAW, "tie_word_embeddings": False}
TIED = {**RAW, "tie_word_embeddings": True}
QWEN = {**RAW, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "attention_bias": None}


EXPERTS = {
    **RAW,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "mlp_only_layers": [0],
}


@pytest.mark.parametrize("raw", [UNTIED, TIED, QWEN, EXPERTS], ids=["untied", "tied", "biases", "experts"])
def test_full_weights_come_back_as_they_were(tmp_path: Path, raw: dict[str, Any]) -> None:
    made = planned(tmp_path, "llada", raw=raw)
    network, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    ids = torch.cat((IDS, torch.tensor([SIZE])))  # the new mask token among them
    assert torch.equal(logits(model.network, ids), logits(network, ids))  # type: ignore[arg-type]
    assert model.mask_token_id == SIZE
    assert model.config.vocab_size == SIZE + 1


@pytest.mark.parametrize("raw", [UNTIED, TIED], ids=["untied", "tied"])
@pytest.mark.parametrize("mask", ["new", "<think>"])
def test_an_adapter_that_is_on_everywhere_is_merged(tmp_path: Path, raw: dict[str, Any], mask: str) -> None:
    made = planned(tmp_path, "llada", "method={kind='lora',rank=3,alpha=5.0}", f'model.mask_token="{mask}"', raw=raw)
    network, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    assert model.adapter is None
    assert model.mask_token_id is not None
    ids = torch.cat((IDS, torch.tensor([model.mask_token_id])))
    others = torch.arange(SIZE) != model.mask_token_id  # a mask is never predicted, so its row of the head may differ
    expected = on_everywhere(network, ids)[:, :SIZE][:, others]
    assert torch.allclose(logits(model.network, ids)[:, :SIZE][:, others], expected, atol=1e-4)


def test_an_adapter_that_reads_clean_text_switched_off_is_published_by_itself(tmp_path: Path) -> None:
    made = planned(tmp_path, "draft-lora", 'model.mask_token="<think>"', "precision.weights=float32")
    network, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    base = load(tmp_path / "model", pack=False)
    assert model.adapter is not None
    assert model.block_length == 8
    assert torch.equal(logits(model.network, IDS), logits(base.network, IDS))
    positions, rows = torch.arange(len(IDS)), torch.arange(len(IDS))
    hidden = model.network(IDS, positions, attend_alone(None), rows, model.adapter.on())
    assert torch.allclose(model.network.head(hidden), on_everywhere(network, IDS), atol=1e-4)


def test_a_new_mask_token_joins_the_tokenizer_and_the_table(tmp_path: Path) -> None:
    made = planned(tmp_path, "sdar")
    _, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    before, after = made.found.tokenizer, model.tokenizer
    assert before is not None
    assert after is not None
    assert after.token_id("<|mask|>") == SIZE == model.mask_token_id
    assert after.is_control(SIZE)
    messages = [{"role": "user", "content": "hello <|mask|> <|im_end|>"}]
    assert SIZE not in after.encode_chat(messages)
    assert after.decode(after.encode_chat(messages)) == before.decode(before.encode_chat(messages))
    text = "hello, well"
    assert after.encode_text(text) == before.encode_text(text)
    start = network_of(made.recipe, made.found, made.mask, torch.device("cpu"))
    table = load(tmp_path / "model", pack=False).network.embed.weight  # type: ignore[union-attr]
    assert torch.equal(start.embed.weight[:SIZE], table)  # type: ignore[union-attr, index]
    assert torch.allclose(start.embed.weight[SIZE], table.mean(0))  # type: ignore[union-attr, index, operator]


def test_other_code_reads_the_result_as_its_base(tmp_path: Path) -> None:
    """transformers sees a Llama with one token more."""
    from transformers import AutoTokenizer, LlamaForCausalLM

    made = planned(tmp_path, "sdar")
    _, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    theirs = LlamaForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    mask = torch.ones(len(IDS), len(IDS), dtype=torch.bool).tril()
    assert torch.allclose(theirs(IDS[None]).logits[0], logits(model.network, IDS, mask), atol=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert (tokenizer.mask_token, tokenizer.mask_token_id) == ("<|mask|>", SIZE)


def test_config_says_how_it_decodes(tmp_path: Path) -> None:
    made = planned(tmp_path, "sdar", "objective.block_length=6", 'precision.publish="bfloat16"')
    _, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text("utf-8"))
    assert (config["architectures"], config["torch_dtype"]) == (["LlamaForCausalLM"], "bfloat16")
    assert config[KEY] == {"attention": "block", "shift": False, "context": "block", "causal": False}
    assert (config["mask_token_id"], config["block_length"], model.block_length) == (SIZE, 6, 6)
    assert model.dtype == torch.bfloat16


def test_a_model_without_tokenizer_gets_a_row_all_the_same(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "bare", {**LLAMA, "vocab_size": 40, "eos_token_id": 0})
    write_own(tmp_path / "own.jsonl")
    changes = small(tmp_path / "bare", tmp_path / "own.jsonl")
    checked = check(parse(shipped()["llada"], "llada", changes), "llada")
    made = plan(checked, look(checked))
    _, weights = trained(made)
    model = published(made, weights, tmp_path / "out")
    assert (model.mask_token_id, model.config.vocab_size, model.tokenizer) == (40, 41, None)


def test_rows_behind_the_vocabulary_are_used_first(tmp_path: Path) -> None:
    made = planned(tmp_path, "llada", raw={**RAW, "vocab_size": SIZE + 5})
    assert made.mask is not None
    assert (made.mask.token_id, made.mask.vocab_size) == (SIZE, SIZE + 5)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (["model.mask_token=9999"], ParameterError, '`model.mask_token` must be "own", "new", an id below 262'),
        (["model.mask_token=<none>"], ParameterError, 'or a token of its vocabulary, got "<none>"'),
        (["model.mask_token=own"], ParameterError, "has no token that could be the mask"),
        (["packing.length=4096"], ParameterError, "`packing.length` must be at most 128, the context of"),
        (["model.source=nowhere"], ModelError, "no model at 'nowhere'"),
    ],
)
def test_what_does_not_fit_the_model_is_told_before_anything_is_read(
    tmp_path: Path, changes: list[str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        planned(tmp_path, "llada", *changes)
    assert message in str(caught.value)


def test_a_vocabulary_that_has_the_new_token_is_told_to_name_it(tmp_path: Path) -> None:
    made = planned(tmp_path, "llada")
    _, weights = trained(made)
    published(made, weights, tmp_path / "out")
    changes = small(tmp_path / "out", tmp_path / "own.jsonl")
    checked = check(parse(shipped()["llada"], "llada", changes), "llada")
    with pytest.raises(ParameterError, match="which this vocabulary has; name it instead"):
        plan(checked, look(checked))
    own = check(parse(shipped()["llada"], "llada", [*changes, "model.mask_token=own"]), "llada")
    again = plan(own, look(own)).mask
    assert again is not None
    assert (again.token_id, again.untrained) == (SIZE, False)


def test_an_adapter_of_a_model_that_denoises_already_is_refused(tmp_path: Path) -> None:
    made = planned(tmp_path, "llada")
    _, weights = trained(made)
    published(made, weights, tmp_path / "out")
    changes = small(tmp_path / "out", tmp_path / "own.jsonl")
    checked = check(parse(shipped()["draft-lora"], "draft-lora", changes), "draft-lora")
    with pytest.raises(ModelError, match="is no autoregressive model"):
        look(checked)
    assert TEXT_END in load(tmp_path / "out", verify=False).stop_ids
