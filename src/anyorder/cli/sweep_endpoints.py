"""The endpoints of a sweep: who answers, and who judges."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from anyorder.cli.decoding import load_model
from anyorder.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    from anyorder.sweep.endpoint import Endpoint
    from anyorder.sweep.subject import Subject

_OF_URL = ("api_key_env", "surface")
_OF_JUDGE = ("judge_model", "judge_key_env")


def check(given: Mapping[str, Any], load: Mapping[str, Any]) -> None:
    """What can be wrong before anything is loaded or asked: packages, and flags that would be ignored.

    Raises:
        ParameterError, MissingExtra
    """
    _refuse_without(given, "url", _OF_URL)
    _refuse_without(given, "judge", _OF_JUDGE)
    if not {"url", "judge"} & set(given):
        _refuse_without(given, "url", ("timeout", "tries"))
        return
    if "url" in given:
        for name in load:
            if name != "model":
                flag = name.replace("_", "-")
                raise ParameterError(f"--{flag} is for a model loaded here; it cannot reach into --url", param=name)
    if given.get("surface", "chat") not in ("chat", "completions"):
        raise ParameterError(f"`surface` must be chat or completions, got {given['surface']!r}", param="surface")
    if given.get("tries", 1) < 1:
        raise ParameterError(f"`tries` must be at least 1, got {given['tries']}", param="tries")
    if not given.get("timeout", 1) > 0:
        raise ParameterError(f"`timeout` must be above 0 seconds, got {given['timeout']}", param="timeout")
    if find_spec("httpx2") is None:
        raise MissingExtra("asking endpoints needs httpx2: pip install 'anyorder[bench]'")


def _refuse_without(given: Mapping[str, Any], needed: str, names: tuple[str, ...]) -> None:
    for name in names:
        if name in given and needed not in given:
            raise ParameterError(f"--{name.replace('_', '-')} goes with --{needed}; add it, or drop it", param=name)


@contextmanager
def subject_of(given: Mapping[str, Any], load: Mapping[str, Any], *, seams: bool) -> Generator[Subject]:
    """Who answers: the endpoint, or a model that is loaded here."""
    if "url" not in given:
        from anyorder.sweep.local import LocalSubject

        yield LocalSubject(load_model(dict(load)), seams=seams)
        return
    if seams:
        raise ParameterError("--seams asks a model that is loaded here; it cannot reach into --url", param="seams")
    from anyorder.sweep.remote import RemoteSubject

    surface = given.get("surface", "chat")
    key = given.get("api_key_env", "OPENAI_API_KEY")
    with _endpoint(given, given["url"], load.get("model"), key, surface) as endpoint:
        yield RemoteSubject(endpoint)


@contextmanager
def judge_of(given: Mapping[str, Any]) -> Generator[Endpoint | None]:
    """The judge; None if there is none."""
    if "judge" not in given:
        yield None
        return
    key = given.get("judge_key_env", "JUDGE_API_KEY")
    with _endpoint(given, given["judge"], given.get("judge_model"), key, "chat") as endpoint:
        yield endpoint


@contextmanager
def _endpoint(given: Mapping[str, Any], url: str, model: str | None, key: str, surface: Any) -> Generator[Endpoint]:
    from anyorder.bench.client import Target, model_name
    from anyorder.sweep.endpoint import Endpoint

    target = Target(url=url.rstrip("/") + "/", key=os.environ.get(key), surface=surface)
    limits = {name: given[flag] for flag, name in (("timeout", "timeout_s"), ("tries", "tries")) if flag in given}
    with Endpoint(target, model or asyncio.run(model_name(target)), **limits) as endpoint:
        yield endpoint
