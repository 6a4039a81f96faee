"""config.json says how a checkpoint was converted, in a way that can be read back and nothing else."""

from __future__ import annotations

from dataclasses import fields
from itertools import product
from typing import Any

import pytest
from tests.models.tiny_models import LLAMA

from anyorder.cache.schemes import SCHEMES
from anyorder.errors import ModelError
from anyorder.models.families import recognise
from anyorder.models.families.converted import KEY, Denoising
from anyorder.resolve import _CACHES  # type: ignore[reportPrivateUsage]

WAYS = [
    Denoising(attention=attention, shift=shift, context=context, causal=causal)  # type: ignore[arg-type]
    for attention, shift, context, causal in product(
        ("bidirectional", "block", "causal"), (True, False), ("block", "causal"), (True, False)
    )
]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_is_one_that_a_decoder_knows(way: Denoising) -> None:
    spec = recognise({**LLAMA, KEY: way.table()})
    assert spec.decoder == {"bidirectional": "full", "block": "block", "causal": "causal"}[way.attention]
    assert set(spec.caches) <= set(SCHEMES)
    for mode in spec.modes:
        assert set(_CACHES[mode]) & set(spec.caches), mode
    assert ("causal" in spec.modes) == (way.causal or way.attention == "causal")
    assert (spec.name, spec.architectures) == ("llama", ("LlamaForCausalLM",))
    if way.attention != "causal":
        assert spec.shift is way.shift
        assert spec.blocks_both_ways == (way.attention == "block" and way.context == "causal")


def test_without_a_word_it_is_what_it_was() -> None:
    assert recognise(LLAMA).title == "Llama, SmolLM2 (autoregressive)"


GOOD = Denoising(attention="block", shift=True).table()


@pytest.mark.parametrize(
    "table",
    [
        "block",
        {},
        {**GOOD, "attention": "blocks"},
        {**GOOD, "shift": 1},
        {**GOOD, "more": True},
        {key: GOOD[key] for key in GOOD if key != "context"},
    ],
)
def test_a_damaged_table_is_refused(table: Any) -> None:
    with pytest.raises(ModelError, match=r"config\.json: diffusion must hold"):
        recognise({**LLAMA, KEY: table})


def test_the_table_has_every_field() -> None:
    assert list(GOOD) == [field.name for field in fields(Denoising)]
