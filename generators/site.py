"""Builds the site of the documentation with Zensical: `make site`.

Zensical is the successor of Material for MkDocs, which gets no new features (both read the same Markdown). Pages keep
their paths, so that links between them work in the repository and on the site. The groups of docs/README.md are the
navigation. A link to a folder leads to a page that lists it.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

REPOSITORY = Path(__file__).parents[1]
ZENSICAL = "zensical==0.0.73"
INDEX = Path("docs/README.md")
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)([^)\s#]+)\)")
HEAD = """\
[project]
site_name = "inference-operator"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
{url}nav = {nav}
[project.theme]
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
            target.write_text(LINK.sub(partial(_of_folder, page=page), text), encoding="utf-8")
            todo += _linked(page, text)
        else:
            shutil.copyfile(REPOSITORY / page, target)


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
        pages = (f'{{ "{words[:1].upper()}{words[1:]}" = "{path}" }}' for path, words in named.items() if ".md" in path)
        groups.append(f'{{ "{title}" = [{", ".join(pages)}] }}')
    return f'[{{ "Start" = "README.md" }}, {{ "Tutorial" = "docs/tutorial/first-model.md" }}, {", ".join(groups)}]'


class _Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links, self.anchors = list[str](), {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif value and (name, tag) in {("href", "a"), ("src", "img")} and "://" not in value:
                self.links.append(value)


def broken(site: Path) -> Iterator[str]:
    """The links of a built site that lead nowhere."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            relative, anchor = urldefrag(link)
            target = (path.parent / unquote(relative)).resolve() if relative else path
            target = target / "index.html" if target.is_dir() else target
            known = target.exists() and (target not in pages or unquote(anchor) in pages[target].anchors)
            if not known and path.name != "404.html":
                yield f"{path.relative_to(site)}: {link}"


def build(out: Path, url: str = "") -> None:
    shutil.rmtree(out, ignore_errors=True)
    stage(out / "pages")
    site_url = f'site_url = "{url}"\n' if url else ""
    (out / "zensical.toml").write_text(HEAD.format(nav=navigation(), url=site_url), encoding="utf-8")
    command = ["uv", "tool", "run", "--quiet", "--from", ZENSICAL, "zensical", "build"]
    subprocess.run(command, cwd=out, check=True)  # noqa: S603 - of constants


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=REPOSITORY / "dist" / "docs")
    options.add_argument("--url", default="", help="address of the site")
    given = options.parse_args()
    build(given.out, given.url)
    if wrong := list(broken(given.out / "site")):
        raise SystemExit("\n".join(["These links lead nowhere:", *wrong]))
    sys.stdout.write(f"{given.out / 'site' / 'index.html'}\n")
