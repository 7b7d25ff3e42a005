"""haproxy.cfg of random resources: every valid one renders, and no text of a resource becomes a word of its own.

`e2e/router/test_configurations.py` gives such configurations to HAProxy.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.router.haproxy import config_files, haproxy_cfg
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FILE
from tests.testing.random_routers import Routers, words

SEEDS = st.integers(0, 2**32 - 1)
SECTIONS = frozenset({"global", "resolvers", "defaults", "frontend", "backend", "listen"})
RENDERINGS = 100_000


def check_rendering(request: RouterInputs) -> None:
    """One configuration is whole: each line begins a section or is inside one, and nothing is left open."""
    config = config_files(request)[CONFIG_FILE]
    assert haproxy_cfg(request) == config
    assert not {"{{", "{%", "None", "Undefined"} & set(config.replace("%{+json}o", "").split())
    for line, found in zip(config.split("\n"), words(config), strict=True):
        assert line.startswith(("    ", "#", ".")) or not found or found[0] in SECTIONS, line
        assert found.count("{") + found.count("!{") == found.count("}"), line


def check_injection(seed: int) -> bool:
    """One dangerous text is refused or stays inside its word; returns whether it was accepted."""
    plain, injected, text = Routers(seed).injected()
    if injected is None:
        return False
    before, after = words(haproxy_cfg(plain)), words(haproxy_cfg(injected))
    assert [len(line) for line in after] == [len(line) for line in before], text
    changed = [
        new for one, other in zip(before, after, strict=True) for old, new in zip(one, other, strict=True) if old != new
    ]
    assert all(text in word for word in changed), changed
    assert not any(sign in text for sign in "\n'\"\\ #%$,") or not changed, changed
    return True


@given(SEEDS)
def test_every_valid_resource_renders_to_a_whole_configuration(seed: int) -> None:
    check_rendering(Routers(seed).request())
    check_rendering(Routers(seed).gateway())


@given(SEEDS)
def test_no_text_of_a_resource_adds_a_word_or_an_expression_to_the_configuration(seed: int) -> None:
    check_injection(seed)


@pytest.mark.full
def test_a_hundred_thousand_configurations_hold_no_injected_text() -> None:
    accepted = 0
    for seed in range(RENDERINGS // 2):
        check_rendering(Routers(seed).request())
        accepted += check_injection(seed)
    assert 0 < accepted < RENDERINGS // 2, "some texts are accepted, such as those of annotations, and most are refused"
