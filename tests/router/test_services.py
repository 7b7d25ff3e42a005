"""Rules of the services in all Lua scripts: HAProxy aborts if the reader of one that waits goes away (router.md)."""

import re
from importlib.resources import files

import pytest

SCRIPTS = {
    file.name: file.read_text(encoding="utf-8")
    for file in files("inference_operator.router").iterdir()
    if file.name.endswith(".lua")
}
_REGISTERED = re.compile(r"core\.register_service\(")
_SERVICE = re.compile(
    r'core\.register_service\("\w+", "http", function\((?P<applet>\w+)\)\n(?P<body>(?:(?!^ *end\)$).*\n)+)',
    re.MULTILINE,
)
_READS_FIRST = r"(?: *--.*\n)* *(?:local \w+ = )?{applet}:receive\(1\)\n"
"""A byte is enough, and bounds what a body takes of the memory."""


def services(text: str) -> dict[str, str]:
    """What each service of a script does, by the name of its applet's parameter."""
    return {found["body"]: found["applet"] for found in _SERVICE.finditer(text)}


def reads_first(text: str) -> bool:
    """Whether each service of a script reads its request before anything else."""
    found = services(text)
    all_seen = len(found) == len(_REGISTERED.findall(text))
    return all_seen and all(re.match(_READS_FIRST.format(applet=applet), body) for body, applet in found.items())


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_service_reads_its_request_before_it_waits_or_sends(name: str) -> None:
    assert reads_first(SCRIPTS[name])


def test_the_rule_sees_the_services_of_the_scripts() -> None:
    assert {name: len(services(text)) for name, text in SCRIPTS.items() if services(text)} == {
        "adapters.lua": 1,
        "metrics.lua": 1,
        "peers.lua": 1,
    }


@pytest.mark.parametrize(
    "body",
    [
        "  core.msleep(1)\n  applet:receive(1)\n",
        "  applet:send(text)\n",
        "  applet:receive()\n",
        "  -- applet:receive(1)\n  core.sleep(1)\n",
        "  other:receive(1)\n",
    ],
)
def test_a_service_that_waits_first_or_reads_without_a_bound_breaks_the_rule(body: str) -> None:
    script = f'core.register_service("page", "http", function(applet)\n{body}end)\n'
    assert not reads_first(script)
    assert reads_first(script.replace(body, f"  applet:receive(1)\n{body}"))
    assert not reads_first(script.replace('"http", function(applet)', '"tcp", handler'))
