"""Tables in the documentation that repeat the code are made from it, so that they cannot drift apart.

A page marks such a table with `<!-- table: NAME -->`; `python -m tests.test_docs_tables` writes them all anew.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from tests.cli.scripted import scripted_model
from tests.test_architecture import ALLOWED
from tests.test_docs import PAGES, ROOT, blocks_of

from anyorder import errors, events, generation
from anyorder import params as params_module
from anyorder.cache.schemes import SCHEMES
from anyorder.cli import (
    batch,
    bench_flags,
    bench_latency_flags,
    chat,
    convert,
    flags,
    measure,
    preset,
    reference,
    selftext,
    sweep_flags,
    train,
)
from anyorder.cli import generate as generate_command
from anyorder.cli import inspect as inspect_command
from anyorder.cli import models as models_command
from anyorder.models.families import FAMILIES, LATER
from anyorder.params import DecodeParams
from anyorder.policies.catalog import POLICIES, Schedule
from anyorder.policies.presets import PRESETS
from anyorder.server.effort import EFFORTS, Effort
from anyorder.server.metrics import ServerMetrics
from anyorder.server.settings import ServerSettings
from anyorder.server.wire.common import NEUTRAL, Neutral
from anyorder.server.wire.responses import REFUSED
from anyorder.serving import Metrics, Service, ServiceSettings
from anyorder.training.data.spec import Data
from anyorder.training.recipe.objectives import (
    Autoregressive,
    Bd3lm,
    DiffusionGemma,
    Draft,
    FastDllmV2,
    Llada,
    Mixture,
    Sdar,
)
from anyorder.training.recipe.spec import (
    Full,
    Lora,
    ModelSpec,
    OptimisationSpec,
    PackingSpec,
    PrecisionSpec,
    Recipe,
    RunningSpec,
)
from anyorder.training.recipe.traits import CurriculumSpec

MARKED = re.compile(r"<!-- table: (?P<name>\w+) -->\n(?P<table>(?:\|[^\n]*\n)*)")
Row = tuple[str, ...]


def table(*head: str, rows: Iterable[Row]) -> str:
    """A Markdown table."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


def policies() -> str:
    rows = ((code(p.name), p.summary, p.score, p.schedule, code(*p.reads), p.source) for p in POLICIES.values())
    return table("policy", "a pass commits", "ranks by", "schedule", "reads", "source", rows=rows)


def presets() -> str:
    rows = (
        (code(p.name), p.summary, ", ".join(f"`{n}={v}`" for n, v in p.params.items()), p.source)
        for p in PRESETS.values()
    )
    return table("preset", "what it is", "parameters", "source", rows=rows)


def caches() -> str:
    def families(name: str) -> str:
        return ", ".join(spec.name for spec in FAMILIES.values() if name in spec.caches)

    rows = ((code(s.name), "yes" if s.exact else "no", s.summary, families(s.name), s.source) for s in SCHEMES.values())
    return table("cache", "exact", "what is kept", "families", "source", rows=rows)


def families() -> str:
    def row(facts: dict[str, Any]) -> Row:
        mask = facts["mask"]
        return (
            facts["family"],
            facts["title"],
            code(*facts["architectures"]),
            facts["attention"],
            "shifted" if facts["shifted_logits"] else "in place",
            code(mask) if mask == facts["mask_token"] else mask,
            str(facts["block_length"] or "free"),
            ", ".join(f"**{mode}**" if mode == facts["default_mode"] else mode for mode in facts["modes"]),
            code(facts["default_policy"]),
            yes(facts["infill"]),
        )

    head = (
        "family",
        "checkpoints",
        "architecture",
        "attention",
        "logits",
        "mask",
        "block",
        "modes",
        "policy",
        "infill",
    )
    return table(*head, rows=map(row, models_command.every()))


def yes(value: object) -> str:
    return "yes" if value else "no"


def family_support() -> str:
    def row(facts: dict[str, Any]) -> Row:
        exact = facts["exact_caches"]
        return (
            facts["family"],
            code(*facts["checkpoints"]),
            ", ".join(name if name in exact else f"*{name}*" for name in facts["caches"]),
            ", ".join(facts["drafts"]) or "no",
            *(yes(facts[name]) for name in ("edits", "adapter", "training", "quantised")),
            code(*facts["proof"]),
        )

    head = ("family", "published", "caches", "drafts", "edits", "adapter", "training", "few bits", "proven by")
    return table(*head, rows=map(row, models_command.every()))


def later() -> str:
    return table("architecture", rows=((f"`{name}…`",) for name in LATER))


def parameters() -> str:
    docs = flags.field_docs(Path(inspect.getfile(params_module)).read_text("utf-8"), "DecodeParams")
    rows = ((code(f.name), _default(f), docs[f.name]) for f in dataclasses.fields(DecodeParams))
    return table("parameter", "default", "meaning", rows=rows)


def _default(field: dataclasses.Field[Any]) -> str:
    made = field.default_factory
    return code(repr(field.default if made is dataclasses.MISSING else made()))


def stats() -> str:
    docs = flags.field_docs(Path(inspect.getfile(generation)).read_text("utf-8"), "Stats")
    names = [f.name for f in dataclasses.fields(generation.Stats)]
    derived = {
        name: inspect.getdoc(value) or ""
        for name, value in vars(generation.Stats).items()
        if isinstance(value, property)
    }
    return table("figure", "meaning", rows=[(code(n), docs.get(n, "")) for n in names] + [
        (code(n), text) for n, text in derived.items()
    ])  # fmt: skip


def settings_of(kind: type[Any]) -> Callable[[], str]:
    """The fields of a dataclass of settings."""

    def make() -> str:
        docs = flags.field_docs(Path(inspect.getfile(kind)).read_text("utf-8"), kind.__name__)
        rows = ((code(f.name), _default(f), docs[f.name]) for f in dataclasses.fields(kind))
        return table("setting", "default", "meaning", rows=rows)

    return make


def metrics() -> str:
    docs = flags.field_docs(Path(inspect.getfile(Metrics)).read_text("utf-8"), "Metrics")
    derived = {n: inspect.getdoc(v) or "" for n, v in vars(Metrics).items() if isinstance(v, property)}
    return table("figure", "meaning", rows=((code(name), text) for name, text in {**docs, **derived}.items()))


def refused(parameters: Mapping[str, Neutral]) -> Callable[[], str]:
    def accepted(values: Iterable[Any]) -> str:
        return code(*(json.dumps(value) for value in values)) or "nothing but null"

    def made() -> str:
        rows = ((code(name), accepted(rule.values), rule.reason) for name, rule in parameters.items())
        return table("parameter", "accepted", "why no more", rows=rows)

    return made


def event_types() -> str:
    def below(kind: type[events.Event]) -> Iterable[type[events.Event]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    rows = (
        (code(event.__name__), code(*(f.name for f in dataclasses.fields(event))), _summary(event))
        for event in {kind.__name__: kind for kind in below(events.Event)}.values()  # slots make two of each
        if not event.__subclasses__() and event.__module__ == events.__name__
    )
    return table("event", "fields", "meaning", rows=rows)


def error_types() -> str:
    def below(kind: type[Exception]) -> Iterable[type[Exception]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    def row(kind: type[Exception]) -> Row:
        code_of_exit = "2" if issubclass(kind, errors.ParameterError) else "1"
        return code(kind.__name__), code(*(base.__name__ for base in kind.__bases__)), _summary(kind), code_of_exit

    found = [kind for kind in below(errors.AnyorderError) if kind.__module__ == errors.__name__]
    return table("error", "is also", "meaning", "exit code", rows=map(row, found))


def _summary(thing: object) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def flag_table(*groups: tuple[flags.Flag, ...]) -> Callable[[], str]:
    def row(flag: flags.Flag) -> Row:
        name = f"--{flag.name.replace('_', '-')}"
        shown = (
            f"`{name}`, `--no-{name[2:]}`" if flag.has_opposite else code(" ".join(filter(None, (name, flag.metavar))))
        )
        return shown, flag.help

    return lambda: table("flag", "meaning", rows=(row(flag) for group in groups for flag in group))


def documented(model: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring, those of the bases included."""
    docs: dict[str, str] = {}
    for part in reversed(model.__mro__):
        if issubclass(part, BaseModel) and part is not BaseModel:
            docs |= flags.field_docs(Path(inspect.getfile(part)).read_text("utf-8"), part.__name__)
    return docs


def field_rows(model: type[BaseModel], prefix: str = "") -> list[Row]:
    """(name, default, meaning) of every field but `kind`."""
    docs = documented(model)
    return [
        (f"`{prefix}{name}`", _shown(field), docs.get(name, ""))
        for name, field in model.model_fields.items()
        if name != "kind"
    ]


def _shown(field: FieldInfo) -> str:
    if field.is_required():
        return "**needed**"
    value = field.default
    if isinstance(value, BaseModel) or value is None or value == ():
        return "–"
    text = json.dumps(value)
    return f"`{text}`" if len(text) < 40 else f"`{text[:24]}…`"


def reasoning_effort() -> str:
    def share(effort: Effort) -> str:
        if not effort.thinks:
            return "none"
        return "all of it" if effort.share is None else f"{effort.share:.0%}"

    rows = (
        (code(name), "on" if effort.thinks else "off", share(effort), code(str(effort.threshold)))
        for name, effort in EFFORTS.items()
    )
    return table("`reasoning_effort`", "reasoning", "of the longest answer", "threshold", rows=rows)


def recipe_fields() -> str:
    sections = {
        "model": ModelSpec, "packing": PackingSpec, "optimisation": OptimisationSpec, "precision": PrecisionSpec,
        "running": RunningSpec,
    }  # fmt: skip
    own = [row for row in field_rows(Recipe) if row[0].strip("`") in ("about", "seed")]
    rows = [row for name, model in sections.items() for row in field_rows(model, f"{name}.")]
    return table("field", "default", "meaning", rows=own + rows)


Models = Iterable[type[BaseModel]]


def kind_of(model: type[BaseModel]) -> str:
    (kind,) = get_args(model.model_fields["kind"].annotation)
    return kind


def kinds(models: Models) -> str:
    """What each kind is, and which fields it has; those that must be given in bold."""

    def names(model: type[BaseModel]) -> str:
        fields = [(name, field) for name, field in model.model_fields.items() if name != "kind"]
        return ", ".join(f"**`{name}`**" if field.is_required() else f"`{name}`" for name, field in fields)

    def summary(model: type[BaseModel]) -> str:
        return " ".join((inspect.getdoc(model) or "").split("\n\n")[0].split())

    return table("kind", "what it is", "fields", rows=((code(kind_of(m)), summary(m), names(m)) for m in models))


def fields_of(models: Models) -> str:
    """Every field once, with the kinds that have it."""
    found: dict[Row, list[str]] = {}
    for model in models:
        for row in field_rows(model):
            found.setdefault(row, []).append(kind_of(model))
    rows = ((name, ", ".join(owners), default, text) for (name, default, text), owners in found.items())
    return table("field", "of", "default", "meaning", rows=rows)


OBJECTIVES = (Llada, Bd3lm, Sdar, FastDllmV2, DiffusionGemma, Draft, Autoregressive, Mixture)
METHODS = (Full, Lora)
SOURCES: Models = get_args(get_args(Data)[0])


def server_metrics() -> str:
    """What `/metrics` says of the server; the figures of its process are not ours."""
    shown = ServerMetrics()
    shown.watch(Service(scripted_model(), ServiceSettings(kv_bytes=1 << 20)))
    ours = [family for family in shown.registry.collect() if family.name.startswith("anyorder_")]
    ends = {"counter": "_total"}
    rows = ((code(f.name + ends.get(f.type, "")), f.type, f.documentation) for f in ours)
    return table("figure", "kind", "meaning", rows=rows)


TABLES: dict[str, Callable[[], str]] = {
    "reasoning_effort": reasoning_effort,
    "recipe_fields": recipe_fields,
    "recipe_methods": lambda: kinds(METHODS),
    "recipe_method_fields": lambda: fields_of(METHODS),
    "recipe_objectives": lambda: kinds(OBJECTIVES),
    "recipe_objective_fields": lambda: fields_of(OBJECTIVES),
    "recipe_curriculum": lambda: table("field", "default", "meaning", rows=field_rows(CurriculumSpec)),
    "recipe_data": lambda: kinds(SOURCES),
    "recipe_data_fields": lambda: fields_of(SOURCES),
    "train_flags": flag_table(train.TRAIN_FLAGS),
    "policies": policies,
    "presets": presets,
    "caches": caches,
    "families": families,
    "family_support": family_support,
    "later": later,
    "parameters": parameters,
    "stats": stats,
    "events": event_types,
    "errors": error_types,
    "server_settings": settings_of(ServerSettings),
    "server_refused": refused(NEUTRAL),
    "server_metrics": server_metrics,
    "responses_refused": refused(REFUSED),
    "service_settings": settings_of(ServiceSettings),
    "service_metrics": metrics,
    "load_flags": flag_table(flags.LOAD_FLAGS),
    "generate_flags": flag_table(generate_command.ASK_FLAGS, generate_command.SHOW_FLAGS),
    "batch_flags": flag_table(batch.BATCH_FLAGS),
    "bench_flags": flag_table(bench_flags.BENCH_FLAGS),
    "bench_latency_flags": flag_table(bench_latency_flags.OWN_FLAGS),
    "chat_flags": flag_table(chat.CHAT_FLAGS),
    "models_flags": flag_table(models_command.MODELS_FLAGS),
    "inspect_flags": flag_table(inspect_command.INSPECT_FLAGS),
    "selftext_flags": flag_table(selftext.SELFTEXT_FLAGS),
    "convert_flags": flag_table(convert.CONVERT_FLAGS),
    "report_flags": flag_table(measure.REPORT_FLAGS),
    "sweep_flags": flag_table(sweep_flags.SWEEP_FLAGS),
    "endpoint_flags": flag_table(sweep_flags.ENDPOINT_FLAGS),
    "preset_flags": flag_table(preset.PRESET_FLAGS),
    "reference_flags": flag_table(reference.REFERENCE_FLAGS),
}


def written(text: str) -> str:
    """The page with its tables made anew."""
    return MARKED.sub(lambda match: f"<!-- table: {match['name']} -->\n{TABLES[match['name']]()}", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_code(page: Path) -> None:
    text = page.read_text("utf-8")
    assert written(text) == text, "run: python -m tests.test_docs_tables"


def test_every_field_of_a_recipe_says_what_it_is() -> None:
    sections = (ModelSpec, PackingSpec, OptimisationSpec, PrecisionSpec, RunningSpec, CurriculumSpec)
    for model in (*sections, *OBJECTIVES, *METHODS, *SOURCES):
        assert all(text for _, _, text in field_rows(model)), model


def test_every_table_stands_somewhere() -> None:
    shown = {match["name"] for page in PAGES for match in MARKED.finditer(page.read_text("utf-8"))}
    assert shown == set(TABLES)


def section(page: str, heading: str) -> str:
    text = (ROOT / "docs" / page).read_text("utf-8")
    return text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]


def test_every_policy_has_its_formula() -> None:
    named = re.findall(r"^\| `(\w+)` ", section("decoding.md", "## Formulas"), re.MULTILINE)
    assert named == list(POLICIES)


def test_every_schedule_says_what_steps_means() -> None:
    named = re.findall(r"^\| (\w+)", section("decoding.md", "## What `steps` means"), re.MULTILINE)
    assert named == ["schedule", *get_args(Schedule)]


def test_the_import_rules_are_those_under_test() -> None:
    """docs/architecture.md shows the table that tests/test_architecture.py holds the code to."""
    blocks = blocks_of((ROOT / "docs" / "architecture.md").read_text("utf-8"))
    namespace: dict[str, Any] = {}
    (rules,) = [block for block in blocks if block.body.startswith("ALLOWED")]
    exec(rules.body, namespace)
    assert namespace["ALLOWED"] == ALLOWED


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(written(page.read_text("utf-8")), "utf-8")
