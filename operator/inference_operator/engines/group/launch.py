"""The process of a group member: program, command, hook before its stop, ports and variables of its container."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.engines.process import HEALTH_PORT, READY_FAILURES, READY_PERIOD_SECONDS, GroupMember, Timeouts
from inference_operator.engines.programs import PROGRAMS_VARIABLE, program_command
from inference_operator.text_tables import text_of

RANK_VARIABLE = "GROUP_RANK"
"""Variable with the member's rank: the pod's label `apps.kubernetes.io/pod-index`."""
SERVICE_VARIABLE = "GROUP_SERVICE"
"""Variable with the DNS name of the headless Service. The leader is `POD.SERVICE`, where POD is pod 0 of the same
StatefulSet. Members of another Service are no members, so the name has the namespace in it."""
NAME_VARIABLE, ADDRESS_VARIABLE = "POD_NAME", "POD_IP"
MEMBER_VARIABLES = (RANK_VARIABLE, SERVICE_VARIABLE, NAME_VARIABLE, ADDRESS_VARIABLE)

CONTROL_PORT = 29510
"""Port on which a leader waits for its workers: below the ephemeral ports, which engines use among themselves."""

SILENCE_SECONDS = 10
"""Without a heartbeat a member counts as gone. A busy node delays one by a second or two."""
UNREADY_SECONDS = READY_FAILURES * READY_PERIOD_SECONDS + 1
"""From the begin of a drain until its leader is no endpoint any more. In an engine of one pod, the deletion that begins
the drain does that too."""
HOOK_MARGIN_SECONDS = 2
"""Of the hook beyond the drain: until the last member has heard of its end."""

ORDER_SECONDS = 4
"""Of a worker's end in order, beyond that of the leader's engine (`options.py`, twice `margin`)."""

MEMBER, DRAIN = "group_member", "group_drain"
_PARTS = ("options", "peers", "engine_api", "http_page", "processes", "group_state", "member_program")
"""Each one imports only those before it."""
_FIRST = "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os._exit(0))"
"""Until the program handles SIGTERM itself. The first process of a container does not hear it without a handler."""


def member_source() -> str:
    """The program of each member, in one piece: without the imports of its parts and without docstrings."""
    parts = (text_of(__package__, f"{part}.py") for part in _PARTS)
    return "\n".join((_FIRST, *map(_without, parts)))


def _without(text: str) -> str:
    lines: list[str] = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        own = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(__package__)
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (own or is_docstring):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = [""] * (last - first)
    return "\n".join(line for line in lines if line.strip())


GROUP_PROGRAMS = {
    MEMBER: member_source(),
    DRAIN: text_of(__package__, "drain_program.py"),
}


@dataclass(frozen=True, slots=True)
class GroupedEngine:
    port: int
    health_path: str
    metrics: Sequence[str]
    stop_seconds: int
    """Time limit from SIGTERM to its end."""
    leader_args: Sequence[str]
    """Arguments of the leader's command, after all others. In them, `{size}`, `{rank}` and `{leader}` stand for the
    number of members, the member's rank, and the leader's address."""
    worker_args: Sequence[str]
    address_variable: str = ""
    """Variable in which the engine expects the pod's address; empty: none."""


def group_member(nodes: int) -> GroupMember | None:
    return GroupMember(nodes) if nodes > 1 else None


def group_command(command: Sequence[str], engine: GroupedEngine, nodes: int, timeouts: Timeouts) -> tuple[str, ...]:
    is_program = any(PROGRAMS_VARIABLE in word for word in command)
    program = program_command(MEMBER, starts_another=is_program)
    return (*program, *_options(engine, nodes, timeouts), "--", *command)


def group_drain(timeouts: Timeouts) -> tuple[str, ...]:
    """The hook before the stop of any member: it drains the whole group."""
    seconds = UNREADY_SECONDS + timeouts.dns_staleness + timeouts.drain + HOOK_MARGIN_SECONDS
    return (*program_command(DRAIN), str(HEALTH_PORT), str(seconds))


def stop_limit(timeouts: Timeouts, stop_seconds: int, member: GroupMember | None) -> int:
    """Seconds from the start of the hook to the end of an engine that takes `stop_seconds` after SIGTERM.

    Examples:
        >>> limits = Timeouts(startup=60, dns_staleness=15, drain=300)
        >>> stop_limit(limits, 10, None), stop_limit(limits, 10, group_member(2))
        (325, 334)
    """
    own = UNREADY_SECONDS + HOOK_MARGIN_SECONDS + ORDER_SECONDS if member else 0
    return timeouts.dns_staleness + timeouts.drain + stop_seconds + own


def _options(engine: GroupedEngine, nodes: int, timeouts: Timeouts) -> Iterator[str]:
    numbers = {
        "size": nodes,
        "control": CONTROL_PORT,
        "health": HEALTH_PORT,
        "port": engine.port,
        "start": timeouts.startup,
        "silence": SILENCE_SECONDS,
        "staleness": UNREADY_SECONDS + timeouts.dns_staleness,
        "drain": timeouts.drain,
        "stop": engine.stop_seconds,
    }
    yield from (f"{key}={number}" for key, number in numbers.items())
    yield f"path={engine.health_path}"
    yield from (f"metric={name}" for name in engine.metrics)
    if engine.address_variable:
        yield f"variable={engine.address_variable}"
    yield from (f"leader-arg={word}" for word in engine.leader_args)
    yield from (f"worker-arg={word}" for word in engine.worker_args)
