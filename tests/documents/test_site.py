"""The site of the documentation: its navigation has every guide, and no link leads nowhere."""

import json
import re
from pathlib import Path

from generators.site import REPOSITORY, broken, build, list_versions, navigation
from inference_operator import __version__


def test_the_navigation_has_every_guide_of_users() -> None:
    named = set(re.findall(r'"(docs/how-to/[^"]+)"', navigation()))
    assert named == {f"docs/how-to/{page.name}" for page in GUIDES}


GUIDES = sorted((REPOSITORY / "docs" / "how-to").glob("*.md"))


def written(site: Path, **pages: str) -> Path:
    """A built site; the name of a page has `__` between its version and itself."""
    for name, text in pages.items():
        page = site / f"{name.replace('__', '/')}.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
    return site


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    first = '<h1 id="here">A</h1><a href="b.html#there"></a><a href="#here"></a>'
    second = '<a href="a.html#here"></a><a href="c.html"></a><a href="https://a.example"></a>'
    site = written(tmp_path, v__a=first, v__b=second)
    assert list(broken(site)) == ["v/a.html: b.html#there", "v/b.html: c.html"]


def test_a_link_to_another_version_is_found_and_one_to_the_start_page_of_all_is_none(tmp_path: Path) -> None:
    site = written(tmp_path, index="", v1__a='<a href="../v2/a.html"></a><a href=".."></a>', v2__a="")
    assert list(broken(site)) == ["v1/a.html: ../v2/a.html"]


def test_markdown_that_stayed_a_text_is_found(tmp_path: Path) -> None:
    site = written(tmp_path, v__a="<p>Two:\n- one\n| a |</p><pre>- code</pre>")
    assert list(broken(site)) == ["v/a.html: not rendered: - one", "v/a.html: not rendered: | a |"]


def test_the_newest_version_comes_first_and_is_the_start(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0-rc.9", "0.10.0", "0.10.0-rc.10", "explanation"):
        written(tmp_path / version, index="")
    list_versions(tmp_path)
    assert list(broken(tmp_path)) == []
    listed = json.loads((tmp_path / "versions.json").read_text())
    assert [one["version"] for one in listed] == ["0.10.0", "0.10.0-rc.10", "0.10.0-rc.9", "0.9.0"]
    assert [one["aliases"] for one in listed] == [["latest"], [], [], []]
    assert 'href="0.10.0/index.html"' in (tmp_path / "index.html").read_text()


def test_two_versions_are_built_and_each_links_to_itself_alone(tmp_path: Path) -> None:
    for version in ("0.0.1", __version__):
        build(tmp_path, "https://docs.example/", version)
    site = tmp_path / "site"
    assert [one["version"] for one in json.loads((site / "versions.json").read_text())] == [__version__, "0.0.1"]
    for version in (__version__, "0.0.1"):
        start = (site / version / "index.html").read_text()
        assert '"version":{"provider":"mike"}' in start, "the theme lists the versions"
        assert f"Version {version}" in start
        address = f"https://docs.example/{version}/"
        assert f"<loc>{address}</loc>" in (sitemap := (site / version / "sitemap.xml").read_text())
        assert f"<loc>{address}docs/how-to/install.html</loc>" in sitemap
    assert list(broken(site)) == []
