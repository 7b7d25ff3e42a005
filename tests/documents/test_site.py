"""The site of the documentation: its navigation has every guide, and no link leads nowhere."""

import re
from pathlib import Path

import pytest

from generators.site import REPOSITORY, broken, build, navigation


def test_the_navigation_has_every_guide_of_users() -> None:
    named = set(re.findall(r'"(docs/how-to/[^"]+)"', navigation()))
    assert named == {f"docs/how-to/{page.name}" for page in GUIDES}


GUIDES = sorted((REPOSITORY / "docs" / "how-to").glob("*.md"))


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h1 id="here">A</h1><a href="b.html#there"></a><a href="#here"></a>')
    (tmp_path / "b.html").write_text('<a href="a.html#here"></a><a href="c.html"></a><a href="https://a.example"></a>')
    assert list(broken(tmp_path)) == ["a.html: b.html#there", "b.html: c.html"]


def test_markdown_that_stayed_a_text_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>Two:\n- one\n| a |</p><pre>- code</pre>")
    assert list(broken(tmp_path)) == ["a.html: not rendered: - one", "a.html: not rendered: | a |"]


@pytest.mark.full
def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    build(tmp_path)
    site = tmp_path / "site"
    assert (site / "index.html").is_file()
    assert list(broken(site)) == []
