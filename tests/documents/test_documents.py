import inspect
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from generators import demo_output, request_path
from inference_operator import __version__
from inference_operator.cli.main import COMMANDS
from inference_operator.controller.reconciler import Reconciler
from tests.testing.for_each import for_each

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md"), *REPOSITORY.glob("bench/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
ANCHOR = re.compile(r"\]\((?!https?://)([^)#]*)#([^)]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"`make ([a-z0-9 -]+)`|^make ([a-z0-9-]+)", re.MULTILINE)
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.*-]+\.(?:py|j2|lua|json|yaml|tpl|txt|mod))`")
PACKAGE = REPOSITORY / "operator" / "inference_operator"
COMPARISON = REPOSITORY / "docs" / "explanation" / "comparison.md"
QUICKSTART = REPOSITORY / "manifests" / "samples" / "quickstart.yaml"


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


@for_each(PAGES, named=name)
def test_links_inside_the_repository_have_existing_targets(page: Path) -> None:
    broken = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not broken


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@for_each(PAGES, named=name)
def test_links_to_headings_have_existing_targets(page: Path) -> None:
    found = [(page.parent / file if file else page, anchor) for file, anchor in ANCHOR.findall(page.read_text())]
    assert [(to.name, anchor) for to, anchor in found if to.suffix == ".md" and anchor not in anchors(to)] == []


@for_each(PAGES, named=name)
def test_the_files_of_the_project_that_a_page_names_exist(page: Path) -> None:
    ours = {path.name for top in (REPOSITORY, PACKAGE) for path in top.iterdir() if path.is_dir()} - {"operator"}
    named = [path for path in FILE.findall(page.read_text()) if path.partition("/")[0] in ours]
    assert [path for path in named if not [*REPOSITORY.glob(path), *PACKAGE.glob(path)]] == []


@for_each(PAGES, named=name)
def test_every_make_command_in_the_documents_exists(page: Path) -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    named = {word for found in TARGET.findall(page.read_text()) for word in " ".join(found).split()}
    assert named <= targets


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/architecture.md"])
def test_the_resource_shown_on_a_page_equals_the_quickstart_sample(page: str) -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", (REPOSITORY / page).read_text(), re.DOTALL)
    assert shown == QUICKSTART.read_text()
    assert len(shown.splitlines()) == 7


def test_the_reconcile_function_on_the_architecture_page_equals_the_code() -> None:
    page = (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text()
    (shown,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert shown == textwrap.dedent(inspect.getsource(Reconciler.reconcile))


def test_the_readme_compares_as_the_page_with_the_sources_does() -> None:
    compared = COMPARISON.read_text().splitlines()
    columns = next(line for line in compared if line.startswith("| | this")).count(" | ")
    rows = [line for line in (REPOSITORY / "README.md").read_text().splitlines() if line.count(" | ") == columns]
    assert rows
    assert set(rows) <= set(compared)


def test_each_compared_project_has_a_source() -> None:
    text = COMPARISON.read_text()
    projects = next(line for line in text.splitlines() if line.startswith("| | this")).strip("| ").split(" | ")[1:]
    sources = re.findall(r"^\| ([\w -]+) \| [^|]*\d[^|]* \| .*`", text, re.MULTILINE)
    assert {project.partition(" + ")[0] for project in projects} <= set(sources)


def test_the_picture_of_a_request_is_that_of_its_generator() -> None:
    assert request_path.PICTURE.read_text() == request_path.page(), "stale: run `make crd`"


def test_a_new_demo_output_replaces_the_text_between_the_markers() -> None:
    page = demo_output.FULL.read_text()
    new = demo_output.replaced(page, "demo-output", "== 1. Title\n-- 1 s\n")
    assert demo_output.block(new, "demo-output") == "== 1. Title\n-- 1 s\n"
    assert demo_output.replaced(new, "demo-output", demo_output.block(page, "demo-output")) == page


def test_decision_records_are_numbered_in_order_and_have_the_same_sections() -> None:
    records = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
    for number, record in enumerate(records, start=1):
        text = record.read_text()
        assert record.name.startswith(f"{number:04d}-")
        assert text.startswith(f"# {number}. ")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_each_sample_is_a_single_resource_with_a_unique_name() -> None:
    samples = [yaml.safe_load(path.read_text()) for path in sorted(QUICKSTART.parent.glob("*.yaml"))]
    assert {sample["kind"] for sample in samples} == {"InferenceDeployment"}
    names = [sample["metadata"]["name"] for sample in samples]
    assert len(set(names)) == len(names)


def test_the_citation_has_the_version_and_the_forms_ask_for_what_helps() -> None:
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == __version__
    form = yaml.safe_load((REPOSITORY / ".github/ISSUE_TEMPLATE/bug.yml").read_text())
    named = set(re.findall(r"`infd ([a-z-]+)", str(form)))
    assert named == {"status", "doctor", "version", "support-bundle"} <= {*COMMANDS, "version"}
    ids = [one["id"] for one in form["body"] if "id" in one]
    assert len(ids) == len(set(ids))
