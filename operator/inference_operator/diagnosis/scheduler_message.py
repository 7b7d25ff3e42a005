"""The scheduler's words on why no node takes a pod, as a sentence for users."""

import re
from collections.abc import Sequence

_COUNT = re.compile(
    r"^0/(?P<nodes>\d+) nodes are available: (?P<causes>.*?)\.?"
    r"(?:\s+no new claims to deallocate,?)?(?:\s+preemption: .*)?$"
)
"""After the causes come remarks of the plugins that could make room (Kubernetes 1.36, plugins/dynamicresources and
plugins/defaultpreemption); they say nothing that a user could act upon."""
_CAUSE = re.compile(r"(?P<number>\d+) (?P<what>(?:(?!, \d+ ).)+)")

_WORDS: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"^Insufficient (?P<what>\S+)$"), "too little free `{what}`"),
    (
        re.compile(r"^node\(s\) had untolerated taint\(?s?\)? ?\{(?P<what>.*)\}$"),
        "a taint that is not tolerated ({what})",
    ),
    (re.compile(r"^node\(s\) had untolerated taint\(s\)$"), "a taint that is not tolerated"),
    (re.compile(r"^node\(s\) didn't match Pod's node affinity/selector$"), "other labels than are asked for"),
    (re.compile(r"^node\(s\) had volume node affinity conflict$"), "no way to the volume"),
    (re.compile(r"^node\(s\) didn't match pod topology spread constraints.*$"), "pods enough of this kind"),
    (re.compile(r"^node\(s\) were unschedulable$"), "been closed to new pods"),
    (re.compile(r"^Too many pods$"), "as many pods as they take"),
)
"""Reasons of the scheduler's plugins (Kubernetes 1.36, pkg/scheduler/framework/plugins), said after "have"."""

CURE = "Add a node that has what is missing, make room on one, or ask for less"


def scheduler_sentence(message: str, more: str = "") -> str:
    """What the scheduler says, in a sentence; its own words where they have another form.

    Args:
        message: the scheduler's.
        more: a sentence on what it does not say.

    Examples:
        >>> scheduler_sentence("0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu.")
        'none of 4 nodes takes it: 1 has been closed to new pods, 3 have too little free `nvidia.com/gpu`. \
Add a node that has what is missing, make room on one, or ask for less.'
        >>> scheduler_sentence("no nodes available to schedule pods")
        'there is no node at all. Add a node that has what is missing, make room on one, or ask for less.'
    """
    if message.startswith("no nodes available"):
        return f"there is no node at all. {CURE}."
    counted = _COUNT.match(message)
    if counted is None:
        return message
    causes = [_said(int(found["number"]), found["what"]) for found in _CAUSE.finditer(counted["causes"])]
    if not causes:
        return message
    nodes = (
        "the only node does not take it" if counted["nodes"] == "1" else f"none of {counted['nodes']} nodes takes it"
    )
    said = f"{nodes}: {', '.join(causes)}."
    return " ".join(part for part in (said, more, f"{CURE}.") if part)


def _said(number: int, what: str) -> str:
    for pattern, words in _WORDS:
        if found := pattern.match(what.strip()):
            return f"{number} {'has' if number == 1 else 'have'} {words.format(**found.groupdict())}"
    return f"{number} {what.strip()}"
