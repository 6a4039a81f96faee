"""A low-rank adapter is the change of the matrices that it stands for where it is on, and nothing where it is off."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.tiny import MASK, tiny
from torch import Tensor

from anyorder.errors import ParameterError
from anyorder.models.adapter import PRODUCTS, Adapted, Adapter
from anyorder.models.transformer import Transformer

IDS = torch.tensor([5, MASK, 7, 8, MASK, 9])


def changed(seed: int = 0, dtype: torch.dtype = torch.float64) -> Adapter:
    adapter = Adapter(tiny("llama").config, rank=3, alpha=6, mask_token_id=MASK)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return adapter.to(dtype)


def alone(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Every token sees itself only, so that rows cannot influence each other."""
    return v.repeat_interleave(q.shape[1] // v.shape[1], 1)[-q.shape[0] :] if q.shape[0] == v.shape[0] else v[:0]


def hidden(network: Transformer, adapted: Adapted | None = None) -> Tensor:
    return network(IDS, torch.arange(len(IDS)), alone, None, adapted)


def merged(adapter: Adapter) -> Transformer:
    """The base with every change written into its matrices, and the mask's embedding into the table."""
    network = copy.deepcopy(tiny("llama").network)
    with torch.no_grad():
        for number, layer in enumerate(network.layers):
            for name in PRODUCTS:
                change = adapter.get_submodule(f"layers.{number}.{name}")
                getattr(layer, name).weight += adapter.alpha / adapter.rank * change.up @ change.down  # pyright: ignore
        assert adapter.mask_embedding is not None
        network.embed.weight[MASK] = adapter.mask_embedding  # pyright: ignore
    return network


def test_on_it_is_the_merged_network() -> None:
    adapter = changed()
    torch.testing.assert_close(hidden(tiny("llama").network, adapter.on()), hidden(merged(adapter)))


@given(gate=st.lists(st.booleans(), min_size=len(IDS), max_size=len(IDS)), bf16=st.booleans())
def test_rows_that_it_is_off_for_are_bit_identical_to_the_base(gate: list[bool], bf16: bool) -> None:
    dtype = torch.bfloat16 if bf16 else torch.float64
    network, adapter = tiny("llama", dtype=dtype).network, changed(dtype=torch.float32 if bf16 else dtype)
    rows = torch.tensor(gate)
    mixed, base, on = hidden(network, adapter.on(rows)), hidden(network), hidden(network, adapter.on())
    assert torch.equal(mixed[~rows], base[~rows])
    assert torch.equal(mixed[rows], on[rows])


def test_a_new_one_changes_the_mask_tokens_embedding_only() -> None:
    network = tiny("llama").network
    embedding = torch.full((network.config.hidden_size,), 0.5, dtype=torch.float64)
    adapter = Adapter(network.config, rank=2, alpha=2, mask_token_id=MASK).initialise(embedding, seed=1)
    got, base = hidden(network, adapter.on()), hidden(network)
    masks = IDS == MASK
    assert torch.equal(got[~masks], base[~masks])
    assert not torch.equal(got[masks], base[masks])
    with_embedding = copy.deepcopy(network)
    with torch.no_grad():
        with_embedding.embed.weight[MASK] = embedding  # pyright: ignore
    assert torch.equal(got, hidden(with_embedding))


def test_it_is_drawn_from_its_seed() -> None:
    def drawn(seed: int) -> Tensor:
        return Adapter(tiny("llama").config, rank=2, alpha=2).initialise(seed=seed).get_parameter("layers.1.down.down")

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


@pytest.mark.parametrize(("rank", "alpha"), [(0, 1.0), (2, 0.0), (-1, 1.0)])
def test_an_empty_change_is_refused(rank: int, alpha: float) -> None:
    with pytest.raises(ParameterError, match=f"{rank} and {alpha}"):
        Adapter(tiny("llama").config, rank=rank, alpha=alpha)


def test_a_mask_token_needs_a_place_to_begin() -> None:
    with pytest.raises(ParameterError, match="mask_embedding"):
        Adapter(tiny("llama").config, rank=2, alpha=2, mask_token_id=MASK).initialise()
