"""A random model that reads bytes, what it is converted into, and two prompts to measure both with."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, cast

import torch
from tests.cli.scripted import MASK, STOP, VOCABULARY, ByteTokenizer

from anyorder.conversion.heldout import Question, encode
from anyorder.conversion.measure import Subject
from anyorder.models.adapter import Adapter
from anyorder.models.config import ModelConfig
from anyorder.models.families import FAMILIES
from anyorder.models.loaded import LoadedModel
from anyorder.models.transformer import Transformer

QUESTIONS = [
    Question(id="one", category="chat", messages=({"role": "user", "content": "Hi <b>"},), answer="Hello & bye"),
    Question(id="two", category="", messages=({"role": "user", "content": "2+2?"},)),
]


@functools.cache
def base(*, seed: int = 0) -> LoadedModel:
    """An autoregressive model."""
    config = ModelConfig(
        hidden_size=16, intermediate_size=24, num_layers=2, num_heads=2, num_kv_heads=1, head_dim=8,
        vocab_size=VOCABULARY, max_context=512, rms_norm_eps=1e-5,
    )  # fmt: skip
    network = Transformer(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.5 if parameter.dim() > 1 else 1))
    return LoadedModel(
        network=network.double().eval(),
        config=config,
        spec=FAMILIES["llama"],
        tokenizer=cast(Any, ByteTokenizer()),
        mask_token_id=MASK,
        stop_ids=(STOP,),
        block_length=None,
        source=f"random bytes {seed}",
    )


@functools.cache
def converted(*, seed: int = 0) -> LoadedModel:
    """The base with a random adapter."""
    model = base()
    adapter = Adapter(model.config, rank=2, alpha=2, mask_token_id=MASK).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return dataclasses.replace(model, adapter=adapter, source="converted")


def subject(**changes: Any) -> Subject:
    """Short answers, two thresholds."""
    wanted: dict[str, Any] = {
        "model": converted(),
        "base": base(),
        "prompts": encode(base(), QUESTIONS),
        "max_new_tokens": 12,
        "thresholds": (0.5, 0.9),
    }
    return Subject(**{**wanted, **changes})
