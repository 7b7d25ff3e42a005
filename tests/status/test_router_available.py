"""What RouterAvailable says about routers that are not as this release would build them, or are being replaced."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.api.spec import Spec
from inference_operator.pipeline.inputs import Inputs
from inference_operator.router import security_revision
from inference_operator.router.security_revision import SECURITY_ANNOTATION, open_attacks, security_annotation
from inference_operator.views.samples import RouterSample, Samples
from tests.status.router_states import LATER, with_routers
from tests.status.situations import main_conditions, message, reported
from tests.testing.builders import deployment_status

COMMAND = "run `infd renew --routers -n default qwen`."
FIRST, SECOND = "clients that send no body hold engines", "open streams end a router"


def router_available(situation: Inputs) -> tuple[str, str, str]:
    condition = reported(situation).status.condition(ConditionType.ROUTER_AVAILABLE)
    assert condition is not None
    return condition.status, condition.reason, condition.message


def close(monkeypatch: pytest.MonkeyPatch, *attacks: str) -> None:
    """Let this release close these attacks."""
    monkeypatch.setattr(security_revision, "CLOSED_ATTACKS", attacks)


def test_routers_of_this_release_have_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    for attacks in ((), (FIRST,)):
        close(monkeypatch, *attacks)
        assert router_available(with_routers()) == ("True", "Serving", "2 of 2 routers are ready.")
        assert message(reported(with_routers()), ConditionType.READY) == "1 of 1 engine is ready."


def test_routers_with_an_older_haproxy_say_what_it_lacks() -> None:
    seen = Samples(routers={"a": RouterSample({}, 0, 0), "b": RouterSample({}, 0, 0, is_older=True)})
    status, reason, said = router_available(replace(with_routers(), samples=seen))
    assert (status, reason) == ("True", "Serving")
    assert "Their HAProxy is older than 3.4: it reads only the start of a long body" in said


def test_routers_that_this_release_would_build_otherwise_are_outdated_and_the_cure_is_a_command() -> None:
    earlier = replace(with_routers(), settings=LATER)
    status, reason, said = router_available(earlier)
    assert (status, reason) == ("True", "RouterOutdated")
    assert said.startswith("2 of 2 routers are ready. They keep their pod template and configuration. This release")
    assert said.endswith(COMMAND)
    assert message(reported(earlier), ConditionType.READY) == "1 of 1 engine is ready."


def test_routers_that_close_fewer_attacks_than_this_release_are_vulnerable_and_the_summary_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close(monkeypatch, FIRST)
    earlier = with_routers()
    close(monkeypatch, FIRST, SECOND)
    status, reason, said = router_available(earlier)
    assert (status, reason) == ("True", "RouterVulnerable")
    assert f"They do not close attacks that this release closes: {SECOND}." in said
    assert FIRST not in said
    assert said.endswith(COMMAND)
    result = reported(earlier)
    assert main_conditions(result) == ("True Serving", "False Settled", "False NotStalled")
    assert (result.status.reason, result.status.message) == (reason, said), "beside Ready: True"


def test_an_old_router_writes_no_further_status_as_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch)
    earlier = with_routers()
    close(monkeypatch, FIRST)
    first = reported(earlier)
    resource = replace(earlier.resource, status=first.status)
    later = replace(earlier, resource=resource, now=earlier.now + timedelta(hours=1))
    assert reported(later).status == first.status
    assert first.requeue is None


def test_vulnerable_routers_are_told_while_the_resource_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    close(monkeypatch)
    earlier = with_routers()
    close(monkeypatch, FIRST)
    spec = earlier.resource.spec
    assert isinstance(spec, Spec)
    paused = replace(earlier.resource, spec=spec.model_copy(update={"paused": True}))
    situation = replace(earlier, resource=paused)
    assert router_available(situation)[1] == "RouterVulnerable"


def test_routers_that_are_being_replaced_are_counted() -> None:
    unseen = with_routers(deployment_status(2, seen=0))
    earlier = replace(unseen, pods=tuple(replace(pod, template="earlier") for pod in unseen.pods))
    for situation, expected in (
        (with_routers(deployment_status(2, updated=1)), "1 of 2 have the latest pod template."),
        (earlier, "0 of 2 have the latest pod template."),
    ):
        found = router_available(situation)
        assert found == ("True", "RollingOut", f"2 of 2 routers are ready. {expected}")


def test_another_number_of_routers_is_no_rollout_while_their_controller_has_not_seen_it() -> None:
    assert router_available(with_routers(deployment_status(2, seen=0)))[:2] == ("True", "Serving")


@pytest.mark.parametrize(
    ("recorded", "left"),
    [(None, (FIRST, SECOND)), ("0", (FIRST, SECOND)), ("1", (SECOND,)), ("2", ()), ("7", ()), ("x", (FIRST, SECOND))],
)
def test_attacks_that_are_open_are_those_after_the_recorded_revision(
    monkeypatch: pytest.MonkeyPatch, recorded: str | None, left: Sequence[str]
) -> None:
    close(monkeypatch, FIRST, SECOND)
    noted = {} if recorded is None else {SECURITY_ANNOTATION: recorded}
    assert open_attacks({"spec": {"template": {"metadata": {"annotations": noted}}}}) == tuple(left)
    assert open_attacks(None) == ()
    assert security_annotation() == {SECURITY_ANNOTATION: "2"}
