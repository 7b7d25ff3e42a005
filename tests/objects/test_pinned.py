"""What running pods keep is read back exactly as it was stored, and nothing that was edited is."""

import json
from dataclasses import replace

import pytest

from inference_operator.manifest import Manifest
from inference_operator.objects.pinned import Pinned
from inference_operator.router.pinned_router import ROUTER_PIN, RouterContent
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION

TEMPLATE: Manifest = {"metadata": {"annotations": {TEMPLATE_HASH_ANNOTATION: "abc"}}, "spec": {"containers": []}}
BUILT = Pinned("0123", RouterContent(32, TEMPLATE, {"haproxy.cfg": "global"}, 5))
STORED = ROUTER_PIN.write(BUILT)


def live(text: object) -> Manifest:
    return {"metadata": {"annotations": {ROUTER_PIN.key: text}}}


def test_the_stored_content_is_read_back_with_its_text() -> None:
    pinned = ROUTER_PIN.read(live(STORED))
    assert pinned == BUILT
    assert pinned.stored == ROUTER_PIN.write(pinned) == STORED
    assert json.loads(STORED).keys() == {"inputsHash", "hash", "slots", "template", "files", "cold_start_seconds"}


@pytest.mark.parametrize("text", [None, "", "{}", "[" * 100_000, STORED[:-12], STORED.replace("32", "64")])
def test_an_edited_annotation_is_not_read(text: str | None) -> None:
    assert ROUTER_PIN.read(live(text)) is None


def test_the_pinned_content_is_in_use_while_its_inputs_are_the_same_and_a_pod_of_it_serves() -> None:
    later = replace(BUILT, content=replace(BUILT.content, files={}))
    assert ROUTER_PIN.use(later, live(STORED), [None, "abc"])[0] == BUILT
    assert ROUTER_PIN.use(later, live(STORED), ["other"])[0] == later
    assert ROUTER_PIN.use(replace(later, inputs_hash="4567"), live(STORED), ["abc"])[0].content == later.content
    assert ROUTER_PIN.use(later, None, ["abc"])[0] == later
