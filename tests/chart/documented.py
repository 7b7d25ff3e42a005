"""The commands of Helm that the documents show, with another registry in place of the one in the documents."""

import re
import shlex
from collections.abc import Sequence

from tests.chart.helm import REPOSITORY

SHOWN_REGISTRY = "registry.example"
"""The host in the documents' commands."""
INSTALL_PAGE = "docs/how-to/install.md"
UPGRADE_PAGE = "docs/how-to/upgrade.md"
PAGES = ("README.md", INSTALL_PAGE, "docs/contributing/release.md")
"""The pages that install the operator."""
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CONTINUED = "\\\n"


def shell_commands(page: str) -> list[list[str]]:
    """The shell commands of a page, as words."""
    blocks = _BLOCK.findall((REPOSITORY / page).read_text())
    lines = [line for block in blocks for line in block.replace(_CONTINUED, " ").splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def helm_commands(page: str, verb: str) -> list[list[str]]:
    """The arguments of `helm install` or `helm upgrade` on a page, without examples of one flag, which have `...`."""
    found = [words[1:] for words in shell_commands(page) if words[:2] == ["helm", verb]]
    return [words for words in found if "..." not in words]


def with_registry(words: Sequence[str], host: str) -> list[str]:
    """A command whose registry is this host, which speaks plain HTTP."""
    return [*(word.replace(SHOWN_REGISTRY, host) for word in words), "--plain-http"]
