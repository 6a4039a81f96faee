"""The frame of a page: whole by itself, whatever its title says."""

from __future__ import annotations

from anyorder.reporting.document import document


def test_the_style_is_part_of_the_package_and_of_the_page() -> None:
    page = document("Sweep", "<p>body</p>")
    assert "--series-3" in page
    assert "<h1>Sweep</h1><p>body</p></main>" in page
    assert "<link" not in page


def test_a_title_is_text() -> None:
    assert "<h1>a &lt;b&gt;</h1>" in document("a <b>", "")
