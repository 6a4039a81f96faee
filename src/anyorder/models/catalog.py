"""What is published of every family, and which tests prove that it works here: the facts that no decoder needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Network = Literal["transformer", "transformer with experts", "diffusion transformer"]

_TRANSFORMERS = "tests/models/test_transformer.py::test_logits_agree_with_transformers"
_RELABELLED = "tests/models/test_transformer.py::test_relabelled_networks_are_their_bases"
_LOOPS = "tests/engine/test_published_loops.py::"
_STREAMING = "tests/engine/test_wedlm_streaming.py::test_streaming"
_REVERSE = "tests/engine/test_reverse_process.py::"
_DIT = "tests/models/test_dit.py::test_the_network_is_the_slow_one"


def _variants(name: str) -> str:
    """The test that compares random sizes and switches with a slow network in float64."""
    return f"tests/models/test_variants.py::test_every_variant_is_the_slow_network[{name}]"


def _recorded(family: str) -> str:
    """The test that replays the recordings of a family's published code."""
    return f"tests/test_reference.py::test_every_recorded_case_is_reproduced[{family}]"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One family."""

    checkpoints: tuple[str, ...]
    """Published ones, by hub id; `{a,b}` stands for several."""
    network: Network = "transformer"
    proof: tuple[str, ...]
    """pytest node ids: parity with the published code, or with transformers."""
    training: bool = True
    """Does `anyorder train` take it?"""
    quantised: bool = True
    """Can it be loaded in 8 and 4 bits?"""

    @property
    def adapter(self) -> bool:
        """Can it denoise with a LoRA adapter?"""
        return self.network == "transformer"


CATALOG: Mapping[str, Entry] = {
    "llama": Entry(
        checkpoints=("HuggingFaceTB/SmolLM2-{135M,360M,1.7B}-Instruct", "meta-llama/Llama-3.2-{1B,3B}-Instruct"),
        proof=(_TRANSFORMERS, "tests/models/test_default_model.py::test_the_default_model_answers"),
    ),
    "qwen2": Entry(checkpoints=("Qwen/Qwen2.5-{0.5B,1.5B,3B,7B}-Instruct",), proof=(_TRANSFORMERS,)),
    "qwen3": Entry(checkpoints=("Qwen/Qwen3-{0.6B,1.7B,4B,8B}",), proof=(_TRANSFORMERS,)),
    "qwen3_moe": Entry(
        checkpoints=("Qwen/Qwen3-30B-A3B",),
        network="transformer with experts",
        proof=("tests/models/test_moe.py::test_qwen3_moe_agrees_with_transformers", _variants("qwen3_moe")),
    ),
    "llada": Entry(
        checkpoints=("GSAI-ML/LLaDA-8B-{Base,Instruct}", "GSAI-ML/LLaDA-1.5", "GSAI-ML/iLLaDA"),
        proof=(
            _recorded("llada"),
            _variants("llada"),
            "tests/test_any_order_model.py::test_it_is_a_published_family_like_any_other",
        ),
    ),
    "dream": Entry(
        checkpoints=("Dream-org/Dream-v0-{Base,Instruct}-7B", "Dream-org/Dream-Coder-*", "apple/DiffuCoder-7B-*"),
        proof=(_recorded("dream"), _variants("dream")),
    ),
    "fast_dllm_v2": Entry(
        checkpoints=("Efficient-Large-Model/Fast_dLLM_v2_{1.5B,7B}",),
        proof=(_recorded("fast_dllm_v2"), _variants("fast_dllm_v2")),
    ),
    "efficient_dlm": Entry(
        checkpoints=("nvidia/Efficient-DLM-{4B,8B}",), proof=(f"{_LOOPS}test_efficient_dlm", _RELABELLED)
    ),
    "sdar": Entry(
        checkpoints=("JetLM/SDAR-{1.7B,4B,8B}-Chat", "Gen-Verse/TraDo-{4B,8B}-*"),
        proof=(_recorded("sdar"), _variants("sdar")),
    ),
    "sdar_moe": Entry(
        checkpoints=("JetLM/SDAR-30B-A3B-*",),
        network="transformer with experts",
        proof=("tests/models/test_moe.py::test_sdar_moe_is_qwen3_moe_decoded_as_sdar", _variants("sdar_moe")),
    ),
    "stable_diffcoder": Entry(
        checkpoints=("ByteDance-Seed/Stable-DiffCoder-8B-{Base,Instruct}",),
        proof=(f"{_LOOPS}test_stable_diffcoder", _RELABELLED),
    ),
    "nemotron_labs_diffusion": Entry(
        checkpoints=("nvidia/Nemotron-Labs-Diffusion-{3B,8B,14B}",),
        proof=(
            f"{_LOOPS}test_nemotron",
            f"{_LOOPS}test_nemotrons_self_speculation",
            "tests/models/test_transformer.py::test_queries_that_grow_agree_with_ministral3",
        ),
    ),
    "wedlm": Entry(checkpoints=("tencent/WeDLM-{7B,8B}-*",), proof=(f"{_LOOPS}test_wedlm", _STREAMING, _RELABELLED)),
    "llada_moe": Entry(
        checkpoints=("inclusionAI/LLaDA-MoE-7B-A1B-{Base,Instruct}",),
        network="transformer with experts",
        proof=(_recorded("llada_moe"), _variants("llada_moe")),
    ),
    "llada2_moe": Entry(
        checkpoints=("inclusionAI/LLaDA2.0-{mini,flash}", "inclusionAI/LLaDA2.1-{mini,flash}",
                     "inclusionAI/LLaDA2.2-flash"),
        network="transformer with experts",
        proof=(
            _recorded("llada2_moe"),
            "tests/models/test_moe.py::test_llada2_agrees_with_glm4_moe_of_transformers",
            _variants("llada2_moe"),
            _variants("llada2_moe-experts_by_block"),
            "tests/decoders/test_edit.py::test_going_in_circles_is_noticed",
            "tests/decoders/test_structure.py::test_events_tell_the_whole_story",
        ),
    ),
    "mdlm": Entry(
        checkpoints=("kuleshov-group/mdlm-owt",),
        network="diffusion transformer",
        proof=(_recorded("mdlm"), _DIT, f"{_REVERSE}test_ancestral_steps_have_exactly_their_law"),
    ),
    "bd3lm": Entry(
        checkpoints=("kuleshov-group/bd3lm-owt-block_size{4,8,16}", "kuleshov-group/bd3lm-owt-block_size1024-pretrain"),
        network="diffusion transformer",
        proof=(
            _recorded("bd3lm"),
            _DIT,
            "tests/models/test_dit.py::test_blocks_go_on_beyond_the_context",
            f"{_REVERSE}test_first_hitting_samples_the_joint",
            f"{_REVERSE}test_ancestral_steps_of_a_block_have_exactly_their_law",
        ),
    ),
    "diffusion_gemma": Entry(
        checkpoints=("google/diffusiongemma-26B-A4B-it",),
        network="transformer with experts",
        proof=(
            _recorded("diffusion_gemma"),
            "tests/models/test_gemma.py::test_logits_are_those_of_transformers",
            "tests/models/test_gemma_generate.py::test_every_pass_is_that_of_transformers",
            "tests/models/test_gemma_images.py::test_every_pass_of_generate_is_the_one_of_transformers",
        ),
    ),
}  # fmt: skip
"""By the name of the family; a test holds that every family of `FAMILIES` has an entry."""
