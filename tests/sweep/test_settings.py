"""Grids and their names: knobs are alternatives, everything else is combined, and nothing is there twice."""

from __future__ import annotations

import pytest

from anyorder.errors import ParameterError
from anyorder.sweep.settings import grid, named
from anyorder.sweep.settings_file import parse


def names(axes: dict[str, tuple[object, ...]]) -> list[str]:
    return [setting.name for setting in named(grid(axes), {"max_new_tokens": 64})]


def test_the_sweep_of_the_lesson() -> None:
    assert names({"steps": (64, 32, 16)}) == ["steps 64", "steps 32", "steps 16"]


def test_knobs_are_alternatives_and_the_rest_is_combined() -> None:
    found = names({"steps": (8,), "threshold": (0.9, 0.7), "block_length": (8, 16)})
    assert found == [
        "steps 8, block_length 8", "steps 8, block_length 16",
        "threshold 0.9, block_length 8", "threshold 0.9, block_length 16",
        "threshold 0.7, block_length 8", "threshold 0.7, block_length 16",
    ]  # fmt: skip


def test_policies_take_the_knobs_that_they_read() -> None:
    found = names({"policy": ("entropy", "confidence_threshold", "factor"), "steps": (8, 4), "threshold": (0.9,)})
    assert found == [
        "entropy, steps 8", "entropy, steps 4",
        "confidence_threshold, steps 8, threshold 0.9", "confidence_threshold, steps 4, threshold 0.9",
        "factor",
    ]  # fmt: skip


def test_nothing_swept_is_one_setting() -> None:
    assert names({}) == ["default"]
    assert names({"steps": (8,)}) == ["default"]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"stepz": (1,)}, "unknown parameter 'stepz'; did you mean 'steps'"),
        ({"steps": ()}, "`steps` is swept without a value"),
        ({"policy": ("entropy",), "threshold": (0.9,)}, "none of the swept policies reads `threshold`"),
        ({"policy": ("entropi",)}, "unknown policy 'entropi'; did you mean 'entropy'"),
        ({"threshold": (0.9, 1.5)}, r"`threshold` must be in \[0, 1\]"),
        ({"threshold": (0.9, 0.9)}, "the setting .* is there twice"),
    ],
)
def test_what_makes_no_sense_is_refused(axes: dict[str, tuple[object, ...]], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        names(axes)


FILE = """
[decoding]
max_new_tokens = 32
logit_bias = {5 = -1.5}
[grid]
threshold = [0.9, 0.7]
[[setting]]
name = "one at a time"
steps = 32
stop_ids = [7]
[[setting]]
request = {reasoning_effort = "low"}
"""


def test_a_file_holds_grids_and_single_settings() -> None:
    common, ways = parse(FILE, "s.toml")
    settings = named(ways, common)
    assert [setting.name for setting in settings][:3] == ["threshold 0.9", "threshold 0.7", "one at a time"]
    assert settings[2].params == {"max_new_tokens": 32, "logit_bias": {5: -1.5}, "steps": 32, "stop_ids": (7,)}
    assert settings[3].request == {"reasoning_effort": "low"}
    assert len({setting.key for setting in settings}) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", "is no TOML"),
        ("[grids]", "unknown table 'grids'; did you mean 'grid'"),
        ("[decoding]\nstepz = 1", "did you mean 'steps'"),
        ("[grid]\nsteps = 8", r"write one value as \[0.9\]"),
        ("[setting]\nsteps = 8", "a list of them"),
        ("[[setting]]\nstepz = 8", "did you mean 'steps'"),
        ("[[setting]]\nrequest = 8", "`request` of a setting is a table"),
    ],
)
def test_a_damaged_file_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        parse(text, "s.toml")
