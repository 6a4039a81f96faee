"""The page is one well-formed file that says what was measured, and nothing that a text in it wants it to say."""

from __future__ import annotations

import copy
import dataclasses
import re
from typing import Any

import pytest
from tests.conversion.subjects import subject
from tests.reporting.html_tree import Tree

from anyorder.conversion.measure import DRAFTS, Record, tasks
from anyorder.conversion.page import Report, page
from anyorder.conversion.report import settings
from anyorder.conversion.run_folder import RunFolder
from anyorder.conversion.summary import summarise
from anyorder.conversion.verdict import verdicts

HOSTILE = '</div><script>alert("x")</script><img src=x onerror=y> & "'


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Record]]:
    what = subject()
    found: dict[str, dict[str, Record]] = {}
    for task in tasks(what, found):
        found.setdefault(task.section.name, {})[task.prompt.id] = task.section.measure(what, task.prompt, found)
    return found


def shown(records: dict[str, dict[str, Record]], **changes: Any) -> str:
    what = subject()
    report = Report(
        settings=settings(what),
        summary=summarise(records),
        records=records,
        prompts=what.prompts,
        refused={},
        missing=0,
        run=RunFolder(files={"recipe.toml": "a = 1"}, losses=[(1, 3.0), (2, 2.0)]),
    )
    return page(dataclasses.replace(report, **changes))


def headings(text: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", text)


def test_the_page_is_well_formed_and_the_verdict_comes_first(records: dict[str, dict[str, Record]]) -> None:
    text = shown(records)
    assert Tree(text).faults == []
    assert headings(text) == [
        "In short",
        "Causal perplexity, before and after",
        "Tokens per forward at equal output",
        "Quality by threshold, nothing verified",
        "Masked cross-entropy by mask ratio",
        "Masked cross-entropy by depth in the block",
        "Texts side by side",
        "How it was trained",
    ]


def test_the_page_needs_no_script_and_no_other_file(records: dict[str, dict[str, Record]]) -> None:
    text = shown(records)
    tree = Tree(text)
    assert {"script", "link", "img", "iframe"} & {tag for tag, _ in tree.tags} == set()
    assert not any(name in attributes for _, attributes in tree.tags for name in ("src", "href", "onclick"))
    assert "url(" not in text
    assert "http" not in text


def test_it_reads_in_light_and_dark_and_on_a_phone(records: dict[str, dict[str, Record]]) -> None:
    text = shown(records)
    assert "prefers-color-scheme: dark" in text
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in Tree(text).tags
    style = text[text.index("<style>") : text.index("</style>")]
    light, dark = (set(re.findall(r"(--[\w-]+):", part)) for part in style.split("prefers-color-scheme")[:2])
    assert light == dark  # no colour is forgotten in the dark
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= light | {"--c"}


def test_every_chart_says_what_it_shows(records: dict[str, dict[str, Record]]) -> None:
    charts = [attributes for tag, attributes in Tree(shown(records)).tags if tag == "svg"]
    assert len(charts) == 4 + 2 + 2 + 1  # by threshold, by ratio, by depth, the loss
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in charts)


def test_texts_are_text_whatever_they_say(records: dict[str, dict[str, Record]]) -> None:
    hostile = copy.deepcopy(records)
    for section in hostile.values():
        for record in section.values():
            for found in (record, *record.values()):
                if isinstance(found, dict) and "text" in found:
                    found["text"] = HOSTILE
    prompts = [dataclasses.replace(prompt, text=HOSTILE) for prompt in subject().prompts]
    run = RunFolder(files={"README.md": HOSTILE})
    known = {**settings(subject()), "model": HOSTILE, "base": HOSTILE}
    text = shown(hostile, prompts=prompts, run=run, settings=known, refused={HOSTILE: HOSTILE})
    tree = Tree(text)
    assert tree.faults == []
    assert not {"script", "img"} & {tag for tag, _ in tree.tags}
    assert text.count("&lt;script&gt;") >= 10


def test_what_was_not_measured_is_left_out_or_explained(records: dict[str, dict[str, Record]]) -> None:
    part = {name: records[name] for name in ("base", "masked")}
    text = shown(part, run=RunFolder(), refused={"causal perplexity": "it has no causal mode"}, missing=0.25)
    assert Tree(text).faults == []
    assert headings(text) == ["In short", *headings(shown(records))[4:7]]
    assert "Not measured: causal perplexity." in text
    assert "it has no causal mode" in text
    assert "Unfinished: 75 % are measured." in text
    assert headings(shown({}, run=RunFolder())) == ["In short"]


def test_equal_texts_are_not_repeated_and_others_are_marked(records: dict[str, dict[str, Record]]) -> None:
    text = shown(records)
    assert len(re.findall(r"the same text in \d+ passes", text)) == 2 * (len(DRAFTS) - 1)  # of every draft but none
    changed = copy.deepcopy(records)
    for record in changed["threshold"].values():
        record["0.9"] |= {"text": "something quite different", "ids": [1, 2]}
    assert "<mark>something quite different</mark>" in shown(changed)


def test_the_verdict_says_what_was_kept(records: dict[str, dict[str, Record]]) -> None:
    leads = {verdict.lead: verdict.tone for verdict in verdicts(summarise(records))}
    assert leads["Read from left to right nothing was lost:"] == "good"
    assert leads["Draft lookup: 2 of 2 texts are those of one token per pass,"] == "good"
    assert any(lead.startswith("With nothing verified, at threshold 0.9:") for lead in leads)
    assert leads["Masked tokens:"] == "plain"
    assert verdicts(summarise({})) == []


def test_the_verdict_says_what_was_lost(records: dict[str, dict[str, Record]]) -> None:
    """A report that praises a damaged model would be worse than none."""
    damaged = copy.deepcopy(records)
    damaged["perplexity"]["one"]["bit_identical"] = False
    damaged["lossless"]["two"]["lookup"]["ids"] = [1]
    found = {verdict.lead: verdict for verdict in verdicts(summarise(damaged))}
    changed = found["The causal mode changed: its logits are the base's in 1 of 2 prompts;"]
    assert changed.tone == "bad"
    assert "of the base's own answers" in changed.text
    assert found["Draft lookup: 1 of 2 texts are those of one token per pass,"].tone == "bad"
    assert '<span class="bad">1 of 2</span>' in shown(damaged)


def test_texts_are_shown_of_the_thresholds_nearest_to_the_usual_ones(records: dict[str, dict[str, Record]]) -> None:
    text = shown(records)  # measured at 0.5 and 0.9
    assert text.count("threshold 0.9, not verified") == 2
    assert text.count("threshold 0.5, not verified") == 2
