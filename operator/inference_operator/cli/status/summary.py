"""What `infd list` shows of an InferenceDeployment, from its raw object: the API's models take time to import."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.cli.parser import harmless
from inference_operator.manifest import Manifest
from inference_operator.views.raw import condition, mapping, timestamp


@dataclass(frozen=True, slots=True)
class Summary:
    namespace: str
    name: str
    model: str
    source: str
    ready: bool
    reason: str
    message: str
    """What is wrong and what helps, or what goes on; empty if nothing is to be said."""
    engines_ready: str
    gpus: str
    """Those of one engine."""
    url: str
    kind: str
    context: int | None
    seconds: int | None


def summary(live: Manifest, at: datetime) -> Summary:
    metadata, status = mapping(live, "metadata"), mapping(live, "status")
    ready = condition(status, ConditionType.READY)
    is_ready = ready.get("status") == "True"
    context = mapping(status, "plan").get("maxModelLen")
    return Summary(
        namespace=_text(metadata, "namespace"),
        name=_text(metadata, "name"),
        model=_text(status, "model"),
        source=_text(mapping(mapping(live, "spec"), "model"), "source"),
        ready=is_ready,
        reason=_text(status, "reason") or _text(ready, "reason") or "WaitingForOperator",
        message=harmless(_text(status, "message")) if not is_ready or _is_in_trouble(status) else "",
        engines_ready=_text(status, "ready"),
        gpus=_text(status, "gpus"),
        url=_text(status, "url"),
        kind=_text(mapping(status, "engine"), "kind"),
        context=context if isinstance(context, int) else None,
        seconds=seconds_since(timestamp(metadata.get("creationTimestamp")), at),
    )


def _is_in_trouble(status: Manifest) -> bool:
    """Whether a resource is not as it should be, or is left as it is."""
    wrong = (condition(status, kind) for kind in (ConditionType.STALLED, ConditionType.RECONCILING))
    is_paused = condition(status, ConditionType.READY).get("reason") == Reason.PAUSED
    return is_paused or any(one.get("status") == "True" for one in wrong)


def _text(parent: Manifest, name: str) -> str:
    return str(parent.get(name) or "")


def seconds_since(moment: datetime | None, at: datetime) -> int | None:
    return max(0, int((at - moment) / timedelta(seconds=1))) if moment else None


def words_of(seconds: int | None) -> str:
    """An age in the unit that fits, as kubectl writes it."""
    if seconds is None:
        return ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size * (2 if unit != "m" else 1):
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
