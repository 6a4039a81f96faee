"""Charts: values lie where the axes say, and nothing is drawn of what was not measured."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.reporting.chart import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, Point, Scale, chart
from anyorder.reporting.markup import compared, estimated, plain, table
from anyorder.reporting.statistics import Estimate


def points(*values: tuple[float, float]) -> list[Point]:
    return [Point(x, y, y, y) for x, y in values]


def circles(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', svg)]


def test_the_corners_of_the_data_are_the_corners_of_the_plot() -> None:
    svg = chart([Line(name="a", points=points((0, 0), (10, 5)))], title="t", x="x", y="y")
    assert circles(svg) == [(LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, TOP)]


def test_intervals_are_drawn_and_fit() -> None:
    svg = chart([Line(name="a", points=[Point(0, 1, -4, 6), Point(1, 1, 1, 1)])], title="t", x="x", y="y")
    low, high = map(float, re.findall(r'class="interval" d="M[\d.]+ ([\d.]+)V([\d.]+)"', svg)[0])
    assert TOP <= high < low <= HEIGHT - BOTTOM


def test_what_was_not_measured_is_not_drawn() -> None:
    nothing = Point(1, math.nan, math.nan, math.nan)
    assert chart([Line(name="a", points=[nothing])], title="t", x="x", y="y") == ""
    assert chart([], title="t", x="x", y="y") == ""
    svg = chart([Line(name="a", points=[*points((0, 1), (2, 3)), nothing])], title="t", x="x", y="y")
    assert len(circles(svg)) == 2
    assert "nan" not in svg


def test_points_can_stand_by_themselves() -> None:
    apart = chart([Line(name="a", points=points((0, 1), (1, 2)), joined=False)], title="t", x="x", y="y")
    assert len(circles(apart)) == 2
    assert 'class="line"' not in apart


def test_several_lines_have_a_legend_and_colours_of_their_own() -> None:
    lines = [Line(name=name, points=points((0, 1))) for name in ("<one>", "two")]
    svg = chart(lines, title="t", x="x", y="y")
    assert "&lt;one&gt;</li>" in svg
    assert {"--c:var(--series-0)", "--c:var(--series-1)"} <= set(re.findall(r"--c:var\(--series-\d\)", svg))
    assert "legend" not in chart(lines[:1], title="t", x="x", y="y")


@given(st.lists(st.floats(-1e6, 1e6).map(lambda value: round(value, 3)), min_size=1, max_size=6))
def test_a_scale_holds_all_values_between_few_ticks(values: list[float]) -> None:
    scale = Scale.of(values, 0, 100)
    assert all(-0.01 <= scale(value) <= 100.01 for value in values)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 12
    assert ticks[0] == pytest.approx(scale.low)
    assert ticks[-1] == pytest.approx(scale.high)


def test_equal_shares_have_an_axis_that_begins_at_zero() -> None:
    assert (Scale.of([0, 0], 0, 1).low, Scale.of([0, 0], 0, 1).high) == (0, 1)
    assert Scale.of([0.3, 0.3], 0, 1).low == 0


def test_words_that_differ_are_marked() -> None:
    assert compared("the cat sat", "the cat sat") == "the cat sat"
    assert compared("the cat sat", "the dog sat") == "the <mark>dog</mark> sat"
    assert compared("a b", "a  b") == "a  b"  # only blanks differ
    assert compared("", "<b>") == "<mark>&lt;b&gt;</mark>"
    assert compared("something", "") == ""
    assert compared("one two", "two  three ") == "two  <mark>three</mark>"


def test_figures_have_their_interval() -> None:
    estimate = Estimate(value=2.2749, low=2.1, high=2.4499, documents=3, tokens=10)
    assert plain(estimate) == "2.27 [2.1, 2.45]"
    assert plain(estimate, ".0%") == "227% [210%, 245%]"
    assert estimated(estimate) == "2.27 <small>[2.1, 2.45]</small>"
    assert (plain(None), estimated(None)) == ("not measured", "–")


def test_a_table_names_its_rows_and_columns() -> None:
    html = table("What <this> is", ("a", "b"), [["one", "<i>2</i>"]])
    assert "What &lt;this&gt; is." in html
    assert '<th scope="col">a</th><th scope="col">b</th>' in html
    assert '<th scope="row">one</th><td><i>2</i></td>' in html
