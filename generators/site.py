"""Builds the site of the documentation with Zensical: `make site`.

Zensical is the successor of Material for MkDocs, which gets no new features (both read the same Markdown). Pages keep
their paths, so that links between them work in the repository and on the site. The groups of docs/README.md are the
navigation. A link to a folder leads to a page that lists it.

Each version has a folder of its own. Those of other versions in the same place stay, and the theme's list offers them.
The file of that list is mike's. mike itself is not used: it keeps versions in a branch of Git, and the one that knows
Zensical is a fork outside PyPI.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from inference_operator import __version__

REPOSITORY = Path(__file__).parents[1]
ZENSICAL = "zensical==0.0.73"
INDEX = Path("docs/README.md")
VERSION = re.compile(r"\d+(\.\d+)*(-.+)?")
"""Folders with other names are no versions."""
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)\s#]+)\)")
HEAD = """\
[project]
site_name = "inference-operator"
docs_dir = "pages"
site_dir = "site/{version}"
use_directory_urls = false
{url}nav = {nav}
extra_css = ["site.css"]
copyright = "Version {version}"
[project.extra.version]
provider = "mike"
[project.theme]
custom_dir = "theme"
font = false
features = ["content.code.copy", "navigation.indexes", "navigation.sections", "navigation.top", "search.highlight"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
[project.markdown_extensions]
admonition = {{}}
tables = {{}}
pymdownx.superfences = {{}}
pymdownx.highlight = {{}}
toc.permalink = true
[project.markdown_extensions.toc.slugify]
object = "pymdownx.slugs.slugify"
kwds = {{ case = "lower" }}
"""
STYLE = """\
.md-grid { max-width: 76rem }
@media (min-width: 60em) { .md-main__inner { padding: 0 .6rem } }
.md-typeset table:not([class]) :is(td, th) { min-width: 0; padding: .6em .9em }
.md-typeset table:not([class]) :is(td, td code) { overflow-wrap: break-word; word-break: normal }
.md-typeset table:not([class]) td:nth-child(3):not(:last-child) { min-width: 13rem }
.md-typeset table:not([class]) thead:not(:has(th:not(:empty))) { display: none }
@media (max-width: 44em) {
  .md-typeset p > img[src$=".svg"] { width: 44rem; max-width: none }
  .md-typeset p:has(> img[src$=".svg"]) { overflow-x: auto }
  .md-typeset table:not([class]):has(th:nth-child(3)):not(:has(th:nth-child(7))) {
    thead { display: none }
    tr, td { display: block }
    tr { padding: .5em 0; border-top: .05rem solid var(--md-typeset-table-color) }
    td { border: 0; padding: .2em .9em }
    td:first-child { font-weight: 700 }
    td:empty { display: none }
  }
}
"""
"""Words of a table stay whole, a table without a head shows none. On a phone each row is a card."""
OUTDATED = """\
{% extends "base.html" %}
{% block outdated %}
  This is not the newest version. <a href="{{ '../' ~ base_url }}"><strong>Read the newest.</strong></a>
{% endblock %}
"""
"""The theme shows this line above pages of a version without the alias `latest`."""
FAILING = Path("partials/javascripts/outdated.html")
"""A script of the theme that reads a relative link as a whole address, which is an error on each page. The theme's main
script does the same, so this one is empty here (Zensical 0.0.73, `templates/partials/javascripts/outdated.html`)."""
NEWEST = """\
<!doctype html>
<title>inference-operator</title>
<meta http-equiv="refresh" content="0; url={version}/index.html">
<a href="{version}/index.html">Version {version}</a>
"""
"""The start page of all versions."""


def stage(folder: Path) -> None:
    """Copy the pages and what they link to, beginning with the README, which is the start page."""
    todo, done = [Path("README.md"), INDEX], set[Path]()
    while todo:
        page = todo.pop()
        if page in done:
            continue
        done.add(page)
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if (REPOSITORY / page).is_dir():
            entries = sorted(one.name for one in (REPOSITORY / page).iterdir() if one.suffix == ".md")
            target.mkdir(exist_ok=True)
            text = f"# {page}\n\n" + "".join(f"- [{name.removesuffix('.md')}]({name})\n" for name in entries)
            (target / "README.md").write_text(text, encoding="utf-8")
            todo += [page / name for name in entries]
        elif page.suffix == ".md":
            text = (REPOSITORY / page).read_text(encoding="utf-8")
            target.write_text(python_markdown(LINK.sub(partial(_of_folder, page=page), text)), encoding="utf-8")
            todo += _linked(page, text)
        else:
            shutil.copyfile(REPOSITORY / page, target)


_FIELD = re.compile(r"^\| `([\w.\[\]*/-]+)` \|")
_ITEM = re.compile(r"( *)((?:[-*]|\d+\.) +)")


def python_markdown(text: str) -> str:
    r"""A page of GitHub's Markdown as Python-Markdown reads it: an empty line before a block, and lists in by four.

    Examples:
        >>> print(python_markdown("Two:\n- one\n  - part\n  ```sh\n  - x\n  ```\nEnd\n| a |\n|---|"))
        Two:
        <BLANKLINE>
        - one
            - part
            ```sh
            - x
            ```
        End
        <BLANKLINE>
        | a |
        |---|
    """
    lines, columns, fence = list[str](), list[int](), ""
    for line in text.split("\n"):
        indent, item = len(line) - len(line.lstrip(" ")), None if fence else _ITEM.match(line)
        if line.strip() and not fence:
            is_lazy = bool(lines and lines[-1].strip()) and not item and not line.lstrip().startswith(("|", "```"))
            columns = columns if is_lazy and indent else [one for one in columns if one <= indent]
            starts = (item and not columns) or line.startswith(("|", ">"))
            before = lines[-1] if lines else ""
            if starts and before.strip() and not before.startswith(line[0]) and not (item and _ITEM.match(before)):
                lines.append("")
        inside = max((one for one in columns if one <= indent), default=0)
        if not fence and line.startswith("| `"):
            line = _FIELD.sub(lambda found: f"| <code>{found[1].replace('.', '.<wbr>')}</code> |", line)  # noqa: PLW2901
        lines.append(" " * (4 * len([one for one in columns if one <= indent]) + indent - inside) + line[indent:])
        if item:
            columns.append(item.end())
        if line.strip().startswith("```"):
            fence = "" if fence else "```"
    return "\n".join(line.rstrip() if not line.strip() else line for line in lines)


def _target(page: Path, link: str) -> Path:
    """The path in the repository to which a link leads; of a folder its README, where it has one."""
    found = (REPOSITORY / page.parent / link).resolve().relative_to(REPOSITORY.resolve())
    return found / "README.md" if (REPOSITORY / found / "README.md").is_file() else found


def _linked(page: Path, text: str) -> Iterator[Path]:
    links = [*(link for _, link, _ in LINK.findall(text)), *IMAGE.findall(text)]
    return (_target(page, link) for link in links if (REPOSITORY / page.parent / link).exists())


def _of_folder(found: re.Match[str], page: Path) -> str:
    """A link to a folder leads to the README of it, which the repository or this program has."""
    words, link, anchor = found[1], found[2], found[3] or ""
    is_folder = (REPOSITORY / page.parent / link).is_dir()
    return f"[{words}]({link.rstrip('/')}/README.md)" if is_folder else f"[{words}]({link}{anchor})"


def navigation() -> str:
    """The groups of the index of the documentation, as Zensical reads them."""
    groups = []
    for part in (REPOSITORY / INDEX).read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        named = {str(_target(INDEX, link)): words for words, link, _ in LINK.findall(text)}
        pages = (f'{{ "{_title(words)}" = "{path}" }}' for path, words in named.items() if ".md" in path)
        groups.append(f'{{ "{title}" = [{", ".join(pages)}] }}')
    return f'[{{ "Start" = "README.md" }}, {{ "Tutorial" = "docs/tutorial/first-model.md" }}, {", ".join(groups)}]'


def _title(words: str) -> str:
    """A link's words as a title; a command keeps its small letter."""
    return words.strip("`") if words.startswith("`") else words[:1].upper() + words[1:]


_CODE = frozenset({"pre", "code", "script", "style"})
_MARKDOWN = re.compile(r"^(?:- |\||```|#+ |> ).*", re.MULTILINE)


class _Page(HTMLParser):
    """The links and the anchors of a page, and Markdown that stayed a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.anchors, self.raw, self._in_code = list[str](), {""}, list[str](), False
        self.feed(text)

    def handle_data(self, data: str) -> None:
        self.raw += [] if self._in_code else _MARKDOWN.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_code = self._in_code and tag not in _CODE

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self._in_code = self._in_code or tag in _CODE
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and (name, tag) in {("href", "a"), ("src", "img")} and "://" not in value:
                self.links.append(value)


def broken(site: Path) -> Iterator[str]:
    """The links of all versions that lead nowhere or to another version, and the Markdown that stayed a text."""
    site = site.resolve()
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        yield from (f"{path.relative_to(site)}: not rendered: {line}" for line in page.raw)
        for link in dict.fromkeys(page.links):
            relative, anchor = urldefrag(link)
            target = (path.parent / unquote(relative)).resolve() if relative else path
            target = target / "index.html" if target.is_dir() else target
            version = site if path.parent == site else site / path.relative_to(site).parts[0]
            stays = target == site / "index.html" or target.is_relative_to(version)
            known = target.exists() and (target not in pages or unquote(anchor) in pages[target].anchors)
            if not (stays and known) and path.name != "404.html":
                yield f"{path.relative_to(site)}: {link}"


def _age(version: str) -> tuple[list[int], bool, list[tuple[int, str]]]:
    """Orders versions: a release is newer than its candidates, such as 1.0.0-rc.1."""
    numbers, _, candidate = version.partition("-")
    parts = [(int(part), "") if part.isdecimal() else (-1, part) for part in candidate.split(".")]
    return [int(number) for number in numbers.split(".")], not candidate, parts


def list_versions(site: Path) -> None:
    """Write the list of all versions in a folder, newest first, as mike does, and the start page of all."""
    folders = (path.parent.name for path in site.glob("*/index.html"))
    newest, *older = sorted(filter(VERSION.fullmatch, folders), key=_age, reverse=True)
    known = [{"version": one, "title": one, "aliases": ["latest"] * (one == newest)} for one in (newest, *older)]
    (site / "versions.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(NEWEST.format(version=newest), encoding="utf-8")


def build(out: Path, url: str = "", version: str = __version__) -> None:
    """Build this version's folder beside those of other versions."""
    for old in ("pages", "theme", f"site/{version}"):
        shutil.rmtree(out / old, ignore_errors=True)
    stage(out / "pages")
    start = f"{url.rstrip('/')}/{version}/"
    site_url = f'site_url = "{start}"\n' if url else ""
    (out / "theme" / FAILING.parent).mkdir(parents=True)
    for name, text in (
        ("pages/site.css", STYLE),
        ("theme/main.html", OUTDATED),
        (f"theme/{FAILING}", ""),
        ("zensical.toml", HEAD.format(nav=navigation(), url=site_url, version=version)),
    ):
        (out / name).write_text(text, encoding="utf-8")
    command = [os.environ.get("UV", "uv"), "tool", "run", "--quiet", "--from", ZENSICAL, "zensical", "build"]
    subprocess.run(command, cwd=out, check=True)  # noqa: S603 - of constants
    # The theme finds a page in another version by that version's sitemap, where the start page is its folder.
    sitemap = out / "site" / version / "sitemap.xml"
    sitemap.write_text(
        sitemap.read_text(encoding="utf-8").replace(f"{start}index.html<", f"{start}<"), encoding="utf-8"
    )
    list_versions(out / "site")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=REPOSITORY / "dist" / "docs")
    options.add_argument("--url", default="", help="address of the site")
    given = options.parse_args()
    build(given.out, given.url)
    if wrong := list(broken(given.out / "site")):
        raise SystemExit("\n".join(["These links lead nowhere, or lines are not rendered:", *wrong]))
    sys.stdout.write(f"{given.out / 'site' / 'index.html'}\n")
