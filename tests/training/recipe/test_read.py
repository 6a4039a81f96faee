"""A recipe is read whole or refused in one line that names the field, what was given and what is allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.training.recipe.tiny import RECIPES

from anyorder.errors import DataError, ParameterError
from anyorder.training.recipe.read import check, parse, recipe_text, shipped
from anyorder.training.recipe.spec import Recipe
from anyorder.training.recipe.toml import dumped

MIXTURE = """
[method]
kind = "full"
[objective]
kind = "mixture"
shares = [3, 1]
[[objective.parts]]
kind = "bd3lm"
block_length = 4
context = "causal"
[[objective.parts]]
kind = "autoregressive"
[[data]]
kind = "ids"
path = "own.jsonl"
[packing]
length = 64
[optimisation]
steps = 10
batch_rows = 2
lr = 1e-3
"""


def read(*changes: str, text: str | None = None) -> Recipe:
    return check(parse(shipped()["fast-dllm-v2"] if text is None else text, "mine.toml", changes), "mine.toml")


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_recipes_are_valid_and_say_what_they_are(name: str) -> None:
    text = shipped()[name]
    assert check(parse(text, name), name).about
    assert f"anyorder train {name}" in text
    assert name not in RECIPES or max(map(len, text.splitlines())) <= 120


def test_the_six_are_shipped() -> None:
    assert set(RECIPES) <= set(shipped())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["objective.block_lenth=3"], "unknown field `objective.block_lenth`; did you mean 'block_length'?"),
        (["nothing.x=3"], "unknown field `nothing`; known: about, seed, model, method, objective, data, packing"),
        (["objective.kind=foo"], "`objective.kind` must be one of 'llada', 'bd3lm', 'sdar', 'fast-dllm-v2'"),
        (["objective={}"], "`objective.kind` is missing"),
        (["packing={}"], "`packing.length` is missing"),
        (["optimisation.lr=0"], "`optimisation.lr` must be greater than 0, got 0"),
        (["optimisation.lr=fast"], '`optimisation.lr` must be a valid number, got "fast"'),
        (["optimisation.batch_rows=true"], "`optimisation.batch_rows` must be a valid integer, got true"),
        (["optimisation.batch_rows=2.5"], "`optimisation.batch_rows` must be a valid integer, got 2.5"),
        (["optimisation.lr=nan"], "`optimisation.lr` must be a finite number, got NaN"),
        (["optimisation.schedule=linear"], "must be 'cosine', 'wsd' or 'constant', got \"linear\""),
        (["optimisation.schedule=wsd"], '`decay` belongs to schedule = "wsd", which needs it'),
        (["optimisation.steps=3"], "give either `steps` or `epochs`"),
        (["optimisation.betas=[0.9]"], "`optimisation.betas.1` is missing"),
        (["model.mask_token=true"], "`model.mask_token` must be a valid integer, got true"),
        (["model=smollm2"], '`model` must be an object, got "smollm2"'),
        (["data=[]"], "`data` must have at least 1 entries, got 0"),
        (["data.0.fild=text"], "unknown field `data.0.fild`"),
        (["data.0.kind=chats"], "`data.0.kind` must be one of 'chat', 'jsonl', 'ids', 'text', 'code', 'stream'"),
        (["data.0.weight=0"], "`data.0.weight` must be greater than 0, got 0"),
        (["objective.ratios=[0.9,0.1]"], "`ratios` must satisfy 0 < low <= high <= 1, got [0.9, 0.1]"),
        (["objective.full_share=1.5"], "`objective.full_share` must be less than or equal to 1, got 1.5"),
        (["objective.block_length=1024"], "`packing.length` is 512, shorter than a block of 1024"),
        (["objective.causal_weight=1"], '`causal_weight` needs context = "causal", got "block"'),
        (["objective.context=frozen", "model.mask_token=own"], 'it needs method.kind = "lora"'),
        (
            ["objective.context=frozen", "method.kind=lora"],
            '`model.mask_token` "new" adds a row to the base, which an adapter leaves as it is',
        ),
        (["objective.context=frozen", "objective.shift=false"], '`context` "frozen" needs shift = true'),
        (["objective.curriculum.warmup_share=0.1"], "`warmup` and `warmup_share` belong together"),
        (["objective.curriculum.stable=64"], "`curriculum` ends with blocks of 64, but `block_length` is 32"),
        (["precision.weights=bfloat16"], '`precision.weights` must be "float32" with method.kind = "full"'),
        (["data.0={kind='stream',path='x'}"], "a stream without `limit` has no end: give `optimisation.steps`"),
        (["method.rank=3"], "unknown field `method.rank`"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(changes: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        read(*changes)
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")
    assert "\n" not in str(caught.value)


def test_several_faults_come_together() -> None:
    with pytest.raises(ParameterError) as caught:
        read("optimisation.lr=0", "packing.length=1", "seed=-1")
    assert all(name in str(caught.value) for name in ("`optimisation.lr`", "`packing.length`", "`seed`"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["seed"], "--set 'seed' is no change; write section.key=value"),
        (["=3"], "is no change"),
        (["data.3.path=x"], "--set data.3.path: '3' leads nowhere in a list of 1; parts of a list are numbered from 0"),
        (["seed.x=1"], "--set seed.x: seed is no section but 1"),
        (["seed.x.y=1"], "--set seed.x.y: 'x' leads nowhere in 1"),
    ],
)
def test_changes_that_lead_nowhere_are_refused(changes: list[str], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse("seed = 1\n[[data]]\n", "mine.toml", changes)
    assert message in str(caught.value)


def test_changes_are_toml_or_plain_text() -> None:
    recipe = read("data.0.path=my chats.jsonl", "data.0.kind=chat", "objective.ratios=[0.1, 0.9]", "seed=7")
    assert recipe.data[0].path == Path("my chats.jsonl")
    assert recipe.seed == 7
    assert recipe.objective.ratios == (0.1, 0.9)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], None),
        (["objective.shares=[1]"], "`shares` needs one number for each of 2 parts, got 1"),
        (["objective.parts.1={kind='llada'}"], "must agree in attention, shift, context and block length"),
        (["objective.parts.1={kind='sdar',block_length=8}"], "must agree in attention"),
        (["objective.parts.1={kind='draft',block_length=4}"], "`parts` must all read clean text with the adapter off"),
        (["objective.parts.1={kind='mixture'}"], "`objective.parts.1.kind` must be one of"),
        (["objective.parts=[]"], "`objective.parts` must have at least 2 entries, got 0"),
    ],
)
def test_parts_of_a_mixture_must_fit_together(changes: list[str], message: str | None) -> None:
    if message is None:
        assert read(text=MIXTURE).objective.denoising().causal
        return
    with pytest.raises(ParameterError) as caught:
        read(*changes, text=MIXTURE)
    assert message in str(caught.value)


def test_a_file_or_a_name_is_found_and_a_typing_error_gets_a_hint(tmp_path: Path) -> None:
    assert recipe_text("llada") == shipped()["llada"]
    (tmp_path / "mine.toml").write_text(MIXTURE, "utf-8")
    assert recipe_text(tmp_path / "mine.toml") == MIXTURE
    with pytest.raises(DataError, match="no recipe at 'lada'; did you mean 'llada'"):
        recipe_text("lada")
    with pytest.raises(DataError, match=r"mine\.toml is no TOML: .*line 1"):
        parse("a = \n", "mine.toml")
    (tmp_path / "bad.toml").write_bytes(b"about = '\xff'")
    with pytest.raises(DataError, match=r"bad\.toml: byte 9 is not UTF-8"):
        recipe_text(tmp_path / "bad.toml")


VALUES = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
TABLES: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(st.text(min_size=1), st.one_of(VALUES, st.lists(VALUES, max_size=3)), max_size=4),
    lambda inner: st.dictionaries(
        st.text(min_size=1), st.one_of(VALUES, inner, st.lists(inner, min_size=1, max_size=3)), max_size=4
    ),
    max_leaves=8,
)


@given(TABLES)
def test_what_is_written_as_toml_is_read_back(table: dict[str, Any]) -> None:
    assert tomllib.loads(dumped(table)) == table


def test_a_mixture_decodes_as_its_denoising_part_whatever_its_drafts_are() -> None:
    frozen = "{kind='fast-dllm-v2',block_length=8,context='frozen'}"
    changes = ["method.kind=lora", f"objective.parts=[{{kind='draft',block_length=2}}, {frozen}]"]
    recipe = read(*changes, text=MIXTURE)
    assert (recipe.block_length, recipe.publishes_adapter) == (8, True)
