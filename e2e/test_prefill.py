"""Real vLLM computes prompts apart, over NIXL and TCP between pods, and clients of the `openai` package never notice.

Engines for prompts come and go by themselves, die, stand still, lose packets in the middle of a transfer, and both
roles are rolled out. Each answer is that of one engine alone. The engines compute on CPUs: no figure is a gain.
"""

import json
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.faults import cut_off, kill_container, paused
from e2e.helpers.openai_clients import Answers, openai_clients
from e2e.helpers.served_deployment import Served, metric, metrics_page
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.engines.kv_transfer import SIDE_CHANNEL_PORT
from inference_operator.objects.kv_revision import kv_revision
from inference_operator.objects.names import ENGINE, PREFILL

pytestmark = pytest.mark.full  # engines start eight times, on cores that clients keep busy

NAME = "apart"
CLIENTS, PROMPTS, WORDS, LEAST_TOKENS = 64, 32, 90, 100
OBJECTIVE = "8s"
"""To the first token: so many that busy cores keep them, and so few that a client waits for less than its 60 s."""
SOON = 420.0
FAULT_SECONDS = 15.0
ANSWERS = 300
"""Of each phase, after its fault too."""
TRANSFERRED_KIB = 64
"""That come before packets are dropped: less than the KV cache of one prompt."""
HERE: Mapping[str, Any] = {"mm_processor_kwargs": {}}
"""A field that the middleware does not know: it keeps a prompt where it is decoded."""
PREFILLS = re.compile(r'inference_operator_engine_prefills_total{cause="(\w*)",place="(\w+)"} (\S+)')
REMOTE = 'inference_operator_engine_prefills_total{cause="",place="remote"}'


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample, whose prompts are computed apart by as many engines as they need: by none at first."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    autoscaling = {"minReplicas": 1, "maxReplicas": 1, "scaleDownDelay": "30s", "idleTimeout": "30s"}
    prefill = {"replicas": 0, "autoscaling": {"maxReplicas": 2}, "engine": {"maxNumSeqs": 2}}
    resource["spec"] |= {
        "autoscaling": {**autoscaling, "objective": {"ttft": OBJECTIVE}},
        "disaggregation": {"minPromptTokens": LEAST_TOKENS, "prefill": prefill},
    }
    with Served(cluster, NAME).serving(resource) as served:
        yield served


@pytest.fixture(scope="module")
def expected(served: Served) -> dict[str, str]:
    """The answers of one engine to long prompts."""
    chosen = random.Random(1)  # noqa: S311 - test data
    words = ["otters", "rivers", "stones", "forests", "letters", "engines", "numbers", "oceans", "winters", "gardens"]
    prompts = ["Tell me about " + " ".join(chosen.choices(words, k=WORDS)) for _ in range(PROMPTS)]
    return {prompt: served.complete(prompt, cache_salt=uuid.uuid4().hex, **HERE) for prompt in prompts}


def test_prefill_engines_follow_the_prompts_from_none_to_two_and_back(
    served: Served, expected: dict[str, str], say: Say
) -> None:
    with _watched(served) as seen:
        with openai_clients(served, CLIENTS, expected=expected) as long:
            _until_prefills(served, 2)
            _await_remote(served, long)
        with openai_clients(served, 1) as short:
            _until_prefills(served, 0)
            _await_answers(short)
    say(f"{seen.wanted} prefill engines, {_shown(long)}, then short ones: {_shown(short)}; {dict(_causes(served))}")
    assert (seen.wanted[0], max(seen.wanted), seen.wanted[-1]) == (0, 2, 0)
    assert not [*long.failures, *short.failures]


def test_clients_notice_no_fault_of_a_prefill_engine(served: Served, expected: dict[str, str], say: Say) -> None:
    served.patch({"disaggregation": {"prefill": {"replicas": 1, "autoscaling": None}}})
    _until_prefills(served, 1)
    with openai_clients(served, CLIENTS, expected=expected) as answers:
        _await_remote(served, answers)
        for name, fault in FAULTS.items():
            before, right = _causes(served), answers.right
            said = fault(served)
            _until_prefills(served, 1)
            _await_remote(served, answers)
            say(f"{name}{said}: {answers.right - right} answers, {dict(_causes(served) - before)}")
            assert not answers.failures, name
    assert not answers.failures


def test_a_rollout_of_both_roles_loses_nothing_and_pairs_no_two_revisions(
    served: Served, expected: dict[str, str], say: Say
) -> None:
    old = {*served.pods(ENGINE), *served.pods(PREFILL)}
    with openai_clients(served, CLIENTS, expected=expected) as answers, _watched(served) as seen:
        _await_remote(served, answers)
        env = yaml.safe_load(stack.SAMPLE.read_text())["spec"]["engine"]["env"]
        served.patch({"engine": {"env": [*env, {"name": "ROLLED", "value": "1"}]}})
        eventually(
            lambda: not old & {*served.pods(ENGINE), *served.pods(PREFILL)}, seconds=SOON, what="all engines are new"
        )
        _await_remote(served, answers)
    say(f"both roles rolled: {_shown(answers)}, {seen.apart} looks at engines of which none had a peer")
    assert not answers.failures
    assert seen.apart > 0, "one role was new before the other one"
    assert not seen.mixed


def _killed(served: Served) -> str:
    kill_container(served.cluster, _prefill(served)[0])
    return ""


def _deleted(served: Served) -> str:
    served.kubectl("delete", "pod", _prefill(served)[0], "--wait=false")
    eventually(lambda: len(served.pods(PREFILL)) == 1, seconds=SOON, what="another prefill engine")
    return ""


def _silent(served: Served) -> str:
    with paused(served.cluster, _prefill(served)[0]):
        time.sleep(FAULT_SECONDS)
    return f" for {FAULT_SECONDS:g} s"


def _dropped(served: Served, after_kib: int = 0) -> str:
    """Drop packets between the two engines; legs go through a router, which is not cut off."""
    (pod,) = served.pods(ENGINE)
    with cut_off(served.cluster, pod, [_prefill(served)[1]], container=ENGINE, after_kib=after_kib) as dropped:
        eventually(lambda: dropped() > 0, seconds=SOON, what="packets are dropped")
        time.sleep(FAULT_SECONDS)
        return f" for {FAULT_SECONDS:g} s: {dropped()} packets"


def _garbage(served: Served) -> str:
    """Send what is no msgpack: the listener ends, and the engine is restarted for it."""
    pod, address = _prefill(served)
    send = (
        "import zmq; channel = zmq.Context().socket(zmq.REQ); "
        f"channel.connect('tcp://{address}:{SIDE_CHANNEL_PORT}'); channel.send(b'\\xc1garbage'); channel.poll(2000)"
    )
    served.kubectl("exec", pod, "--", "/opt/vllm/bin/python", "-c", f"{send}; channel.close(0)")
    eventually(lambda: _restarts(served, pod) > 0, seconds=SOON, what="the engine is restarted")
    return ", and the engine is restarted"


FAULTS: Mapping[str, Callable[[Served], str]] = {
    "killed": _killed,
    "silent": _silent,
    "packets dropped": _dropped,
    "packets dropped in the middle of a transfer": lambda served: _dropped(served, TRANSFERRED_KIB),
    "deleted": _deleted,
    "garbage at the side channel": _garbage,
}


@dataclass
class Seen:
    """What was seen of the two roles."""

    wanted: list[int] = field(default_factory=list)
    """Every number of prefill engines that was wanted, in its order."""
    apart: int = 0
    """Looks at a decode engine of whose revision no prefill engine was there, nor one look before."""
    mixed: list[str] = field(default_factory=list)
    """Those of them whose count of prompts from other engines grew."""


@contextmanager
def _watched(served: Served) -> Iterator[Seen]:
    """Look at engines and their counts until the block ends."""
    seen, over = Seen(), Event()

    def watch() -> None:
        counts, before = dict[str, float](), set[str]()
        while not over.wait(1.0):
            wanted = _wanted(served)
            if seen.wanted[-1:] != [wanted]:
                seen.wanted.append(wanted)
            revisions = {role: _revisions(served, role) for role in (ENGINE, PREFILL)}
            peers = {revision for _, revision in revisions[PREFILL].values()}
            for pod, (address, revision) in revisions[ENGINE].items():
                try:
                    count = metric(address, REMOTE)
                except OSError:
                    continue
                if revision not in peers | before:
                    seen.apart += 1
                    seen.mixed += [pod] if count > counts.get(pod, count) else []
                counts[pod] = count
            before = peers

    thread = Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _revisions(served: Served, role: str) -> dict[str, tuple[str, str]]:
    """Address and revision of each running pod of a role."""
    selector = f"--selector=inference-operator.dev/name={NAME},app.kubernetes.io/component={role}"
    pods = json.loads(served.kubectl("get", "pods", selector, "--output=json"))["items"]
    found = {pod["metadata"]["name"]: (pod.get("status", {}).get("podIP", ""), kv_revision(pod)) for pod in pods}
    return {name: (address, revision) for name, (address, revision) in found.items() if address}


def _wanted(served: Served) -> int:
    return int(served.kubectl("get", f"deployment/{NAME}-prefill", "--output=jsonpath={.spec.replicas}"))


def _restarts(served: Served, pod: str) -> int:
    path = "{.status.containerStatuses[*].restartCount}"
    try:
        return sum(map(int, served.kubectl("get", "pod", pod, f"--output=jsonpath={path}").split()))
    except ClusterError:
        return 1


def _prefill(served: Served) -> tuple[str, str]:
    (found,) = served.pods(PREFILL).items()
    return found


def _until_prefills(served: Served, number: int) -> None:
    def is_so() -> bool:
        ready = served.kubectl("get", f"deployment/{NAME}-prefill", "--output=jsonpath={.status.readyReplicas}")
        return _wanted(served) == number == int(ready or 0) == len(served.pods(PREFILL))

    def state() -> str:
        return served.kubectl("get", f"infd/{NAME}", "--output=jsonpath={.status.roles} {.status.conditions}")

    eventually(is_so, seconds=SOON, what=lambda: f"{number} prefill engines: {state()}")


def _causes(served: Served) -> Counter[str]:
    """Prompts of all engines that answer: by why they were computed there, else by where they were computed."""
    found = Counter[str]()
    for address in served.pods(ENGINE).values():
        for cause, place, count in PREFILLS.findall(metrics_page(address)):
            found[cause or place] += int(float(count))
    return found


def _await_remote(served: Served, answers: Answers) -> None:
    """Wait until prompts are computed by other engines, and for some more answers."""
    before = _causes(served)["remote"]
    eventually(
        lambda: _causes(served)["remote"] > before + CLIENTS or answers.failures,
        seconds=SOON,
        what=lambda: f"prompts are computed apart: {_causes(served)}",
    )
    _await_answers(answers)


def _await_answers(answers: Answers) -> None:
    wanted = answers.right + ANSWERS
    eventually(lambda: answers.right > wanted or answers.failures, seconds=SOON, what="more answers")
    assert not answers.failures, answers.failures[:3]


def _shown(answers: Answers) -> str:
    return f"{answers.right} answers, {len(answers.failures)} failures {answers.failures[:3]}"
