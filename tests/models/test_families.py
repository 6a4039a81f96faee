"""Recognition of checkpoints. Guards against loading one architecture as another because its model_type lies."""

from __future__ import annotations

import pytest

from anyorder.errors import UnknownFamily
from anyorder.models.families import FAMILIES, LATER, recognise


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_architecture_is_recognised(name: str) -> None:
    for architecture in FAMILIES[name].architectures:
        assert recognise({"architectures": [architecture]}).name == name


@pytest.mark.parametrize("name", list(FAMILIES))
def test_model_type_decides_when_no_architecture_is_named(name: str) -> None:
    assert recognise({"model_type": FAMILIES[name].model_types[0]}).name == name


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("LlavaLLaDAModelLM", "llava_llada"),
        ("MMadaModelLM", "llada"),
    ],
)
def test_known_but_unsupported_models_are_refused_whatever_their_model_type(architecture: str, model_type: str) -> None:
    with pytest.raises(UnknownFamily, match=rf"{architecture}.*not supported yet; supported: llama"):
        recognise({"architectures": [architecture], "model_type": model_type})


@pytest.mark.parametrize(
    ("architecture", "model_type", "family"),
    [
        ("LLaDAMoEModelLM", "llada", "llada_moe"),
        ("LLaDA2MoeModelLM", "llada2_moe", "llada2_moe"),
        ("StableDiffcoderForCausalLM", "llama", "stable_diffcoder"),
        ("EfficientDLM", "qwen3", "efficient_dlm"),
    ],
)
def test_the_architecture_overrules_the_model_type(architecture: str, model_type: str, family: str) -> None:
    assert recognise({"architectures": [architecture], "model_type": model_type}).name == family


def test_an_unknown_architecture_is_not_excused_by_a_known_model_type() -> None:
    with pytest.raises(UnknownFamily, match=r"unknown architecture 'FooLM' \(model_type 'llama'\).*LlamaForCausalLM"):
        recognise({"architectures": ["FooLM"], "model_type": "llama"})


def test_a_config_that_names_nothing_is_refused() -> None:
    with pytest.raises(UnknownFamily, match="None"):
        recognise({})


def test_no_supported_architecture_counts_as_a_later_one() -> None:
    assert not [name for spec in FAMILIES.values() for name in spec.architectures if name.startswith(LATER)]


@pytest.mark.parametrize("name", list(FAMILIES))
def test_defaults_are_among_what_is_supported(name: str) -> None:
    spec = FAMILIES[name]
    assert spec.decoder in spec.modes
    assert spec.caches[0] == "none"
    autoregressive = (spec.attention == "causal" and spec.blocks == "grid") or spec.mask_is_last
    assert (spec.mask_token is None and spec.mask_token_id is None) == autoregressive
