"""Turns the scheduler's message about an unschedulable pod into a sentence for users."""

import re
from collections.abc import Sequence

from inference_operator.sentences import sentences

_COUNT = re.compile(
    r"^0/(?P<nodes>\d+) nodes are available: (?P<causes>.*?)\.?"
    r"(?:\s+no new claims to deallocate,?)?(?:\s+preemption: .*)?$"
)
"""After the causes come remarks of the plugins that could free resources (Kubernetes 1.36, plugins/dynamicresources and
plugins/defaultpreemption). They contain nothing that a user could act upon."""
_CAUSE = re.compile(r"(?P<number>\d+) (?P<what>(?:(?!, \d+ ).)+)")

_CAUSES: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"^Insufficient (?P<what>\S+)$"), "too little free `{what}`"),
    (
        re.compile(r"^node\(s\) had untolerated taint\(?s?\)? ?\{(?P<what>.*)\}$"),
        "a taint that is not tolerated ({what})",
    ),
    (re.compile(r"^node\(s\) had untolerated taint\(s\)$"), "a taint that is not tolerated"),
    (
        re.compile(r"^node\(s\) didn't match Pod's node affinity/selector$"),
        "labels that do not match the node selector or affinity",
    ),
    (re.compile(r"^node\(s\) had volume node affinity conflict$"), "no access to the volume"),
    (
        re.compile(r"^node\(s\) didn't match pod topology spread constraints.*$"),
        "too many pods for the topology spread constraints",
    ),
    (re.compile(r"^node\(s\) were unschedulable$"), "been cordoned"),
    (re.compile(r"^Too many pods$"), "reached the maximum number of pods"),
)
"""Reasons of the scheduler's plugins (Kubernetes 1.36, pkg/scheduler/framework/plugins), and the words that follow
"has" or "have" in the sentence."""

CURE = "Add a suitable node, free resources on an existing one, or request less"


def scheduler_sentence(message: str, more: str = "", *, cure: bool = True) -> str:
    """The scheduler's message as a sentence; unchanged if its form is unknown.

    Args:
        cure: whether to say what to do; not needed if a node is on its way.
    """
    advice = f"{CURE}." if cure else ""
    if message.startswith("no nodes available"):
        return sentences("the cluster has no nodes.", more, advice)
    counted = _COUNT.match(message)
    if counted is None:
        return message
    causes = [_cause_text(int(match["number"]), match["what"]) for match in _CAUSE.finditer(counted["causes"])]
    if not causes:
        return message
    nodes = "it does not fit the only node" if counted["nodes"] == "1" else f"it fits none of {counted['nodes']} nodes"
    return sentences(f"{nodes}: {', '.join(causes)}.", more, advice)


def _cause_text(number: int, what: str) -> str:
    for pattern, words in _CAUSES:
        if match := pattern.match(what.strip()):
            return f"{number} {'has' if number == 1 else 'have'} {words.format(**match.groupdict())}"
    return f"{number} {what.strip()}"
