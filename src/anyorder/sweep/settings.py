"""The settings of a sweep: a grid of decode parameters, and settings that are spelled out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

from anyorder.errors import ParameterError
from anyorder.params import DecodeParams, check_names
from anyorder.policies.catalog import POLICIES

KNOBS = ("steps", "threshold", "factor", "entropy_bound", "entropy_threshold")
"""Each belongs to a policy of its own: given together, they are alternatives and not multiplied."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """One way of decoding."""

    name: str
    params: Mapping[str, Any]
    """`DecodeParams` fields."""
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields that an endpoint gets as they are, beside those that `params` becomes."""

    @property
    def key(self) -> str:
        """What its records are kept under: all that it is, but for its name."""
        return json.dumps({**self.params, **({"request": self.request} if self.request else {})}, sort_keys=True)

    @property
    def series(self) -> str:
        """What it is drawn with: settings of one knob form a curve."""
        return next((knob for knob in KNOBS if self.params.get(knob) is not None), "other")


def grid(axes: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values of the axes.

    Without a policy, the knobs (`KNOBS`) are alternatives. With policies, each is combined with the knobs it reads.

    Raises:
        ParameterError: an axis is no decode parameter, has no value, or no named policy reads it.
    """
    check_names(axes)
    for name, values in axes.items():
        if not values:
            raise ParameterError(f"`{name}` is swept without a value; give at least one", param=name)
    others = [name for name in axes if name not in KNOBS and name != "policy"]
    rest = [dict(zip(others, values, strict=True)) for values in product(*(axes[name] for name in others))]
    return [{**ways, **also} for ways in _ways(axes) for also in rest]


def _ways(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Policies and their knobs."""
    knobs = [name for name in axes if name in KNOBS]
    policies: Sequence[Any] = axes.get("policy", ())
    if not policies:
        yield from ({name: value} for name in knobs for value in axes[name])
        if not knobs:
            yield {}
        return
    reads = {policy: _reads(policy, knobs) for policy in policies}
    for name in knobs:
        if not any(name in read for read in reads.values()):
            takers = ", ".join(info.name for info in POLICIES.values() if name in info.reads)
            raise ParameterError(f"none of the swept policies reads `{name}`; drop it or add one of {takers}")
    for policy, read in reads.items():
        for values in product(*(axes[name] for name in read)):
            yield {"policy": policy, **dict(zip(read, values, strict=True))}


def _reads(policy: str, knobs: Sequence[str]) -> list[str]:
    DecodeParams.of(policy=policy)  # known
    return [name for name in knobs if name in POLICIES[policy].reads]


def named(ways: Sequence[Mapping[str, Any]], common: Mapping[str, Any]) -> list[Setting]:
    """Settings with names of what tells them apart, checked.

    Args:
        ways: parameters of each; "name" and "request" of one that is spelled out may stand among them.
        common: parameters of all.
    Raises:
        ParameterError: two are the same, or a value is refused.
    """
    params = [{**common, **{k: v for k, v in way.items() if k not in ("name", "request")}} for way in ways]
    for each in params:
        DecodeParams.of(**each)
    keys = dict.fromkeys([*(name for way in ways for name in ("policy", *KNOBS) if name in way), *chain(*params)])
    varied = [key for key in keys if _differs([p.get(key) for p in params])]
    settings = [
        Setting(name=str(way.get("name") or _name(each, varied)), params=each, request=way.get("request", {}))
        for way, each in zip(ways, params, strict=True)
    ]
    for setting in settings:
        same = [s for s in settings if setting.name == s.name or setting.key == s.key]
        if len(same) > 1:
            raise ParameterError(f"the setting {setting.name!r} is there twice; drop one, or give it another name")
    return settings


def _differs(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


def _name(params: Mapping[str, Any], varied: Sequence[str]) -> str:
    given = [f"{key} {params[key]}" for key in varied if params.get(key) is not None]
    return ", ".join(part.removeprefix("policy ") for part in given) or "default"
