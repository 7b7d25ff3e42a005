"""Speculative decoding with a real vLLM on the CPU: the operator's own arguments, and the same answers as without."""

import json
import shutil
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.change_under_load import LoadedChange
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.images.detect import found_builder
from e2e.load import Fault, Load
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.run_speculation import NOISE
from e2e.model.tiny_llama import model_folder
from e2e.runs.printed_figures import Say
from e2e.test_cache import WEIGHTS, hub_of, outside, resource
from inference_operator.engines.vllm.speculation import CONFIG, speculation_arguments
from inference_operator.sizing.plan import Drafting
from tests.testing.hub import REPOSITORY, Hub, serving

SCRIPT = Path(__file__).parent / "model" / "run_speculation.py"
WORDS = ("amber", "basil", "cedar", "delta", "ember", "fern", "grape", "heron")
PROMPTS = [*(f"Tell me about {word}" for word in WORDS), " river stone river stone river stone river stone river"]
TOKENS = 48
NGRAM, DRAFT = Drafting("ngram", 3), Drafting("draft_model", 3, draft="/data/draft")
NAME, DRAFT_REPOSITORY, TOKENS_OF_STEP = "guessing", "org/draft", 3
REQUESTS, BEFORE, AFTER = 150, 50, 50
"""Requests of a phase, and those answered before and after its change."""
PHASE_SECONDS = 600
"""Limit of a phase: two engines start on two cores that the load keeps busy."""

pytestmark = pytest.mark.full  # three starts of vLLM, and seven in a cluster: minutes on a busy machine


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Mapping[str, Any]]:
    """Answers without speculation, with n-grams, and with a draft model."""
    images.build(["tiny-llama"])
    folder = tmp_path_factory.mktemp("speculation")
    shutil.copytree(model_folder(), folder / "model")
    texts = [text for drafting in (NGRAM, DRAFT) for text in speculation_arguments(drafting)]
    configs = [None, *(json.loads(text.removeprefix(f"{CONFIG}=")) for text in texts)]
    (folder / "jobs.json").write_text(json.dumps({"prompts": PROMPTS, "tokens": TOKENS, "configs": configs}))
    command = ("/opt/vllm/bin/python", f"/script/{SCRIPT.name}", "/data")
    volumes = {SCRIPT.parent: "/script:ro", folder: "/data"}
    found_builder().run("speculation", images.reference("engine-cpu"), command, volumes)
    found: list[Mapping[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


def test_answers_at_temperature_0_are_those_without_speculation(results: list[Mapping[str, Any]]) -> None:
    plain, *others = results
    assert len(set(plain["texts"])) == len(PROMPTS)
    assert [other["texts"] for other in others] == [plain["texts"]] * 2


def test_vllm_counts_what_was_guessed_and_accepted(results: list[Mapping[str, Any]]) -> None:
    plain, ngram, draft = results
    assert "guessed" not in plain
    assert 0 < ngram["accepted"] <= ngram["guessed"] <= 3 * ngram["steps"], ngram  # its texts hardly repeat themselves
    assert 0 < draft["accepted"] < draft["guessed"] <= 3 * draft["steps"], draft


def draft() -> Hub:
    """A hub with a model that is almost the tiny one, so that it guesses right often, and not always."""
    hub, random = hub_of(DRAFT_REPOSITORY), Random(1)  # noqa: S311 - no secret
    stored = hub.large[WEIGHTS]
    begin = 8 + int.from_bytes(stored[:8], "little")  # the format of safetensors: a length, a header, numbers
    weights = array("f", stored[begin:])
    noisy = array("f", [weight + random.gauss(0, NOISE) for weight in weights])
    hub.large[WEIGHTS] = stored[:begin] + noisy.tobytes()
    return hub


def guessing(endpoint: str, speculative: Mapping[str, Any]) -> str:
    """The resource on a claim, with a draft or with n-grams."""
    found = yaml.safe_load(resource(NAME, endpoint, {"claimName": NAME}))
    found["spec"]["engine"]["speculative"] = {**speculative, "tokens": TOKENS_OF_STEP}
    return yaml.safe_dump(found)


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The resource, which a test applies."""
    served, folder = Served(cluster, NAME), cluster.volumes / NAME
    folder.mkdir()
    with claim_of(cluster, NAME, folder, access="ReadWriteMany"):
        try:
            yield served
        finally:
            served.kubectl("delete", f"infd/{NAME}", "--wait=true", "--ignore-not-found")
            served.await_gone()


def to_zero_and_back(served: Served) -> None:
    served.kubectl("scale", f"infd/{NAME}", "--replicas=0")
    eventually(lambda: not served.pods("engine"), seconds=PHASE_SECONDS, what="no engine")
    served.scale(1)


def rolled(served: Served, text: str) -> None:
    """Apply a change, and wait until each engine is a new one."""
    old = set(served.pods("engine"))
    served.kubectl("apply", "--filename=-", input=text)
    eventually(lambda: not old & set(served.pods("engine")), seconds=PHASE_SECONDS, what="new engines alone")
    stack.wait_ready(served.cluster, NAME)


def accepted(served: Served, plain: Served) -> float:
    """The part of the guessed tokens that the engines of now have accepted.

    The load's answers are short and repeat nothing, so n-grams guess only in longer ones.
    """
    answers, right_ones = ([each.complete(prompt, max_tokens=TOKENS) for prompt in PROMPTS] for each in (served, plain))
    assert answers == right_ones
    names = ("vllm:spec_decode_num_draft_tokens_total", "vllm:spec_decode_num_accepted_tokens_total")
    guessed, right = (sum(served.counted(name).values()) for name in names)
    assert guessed
    return right / guessed


def test_engines_that_guess_answer_as_others_do_and_lose_nothing_when_they_change(
    cluster: LocalCluster, tiny: Served, served: Served, say: Say
) -> None:
    plain, drafts = Load(tiny.address, tiny.name), draft()
    plain.learn()
    with serving(hub_of(REPOSITORY), drafts, address=outside(cluster)) as hub:
        drafted = guessing(hub.endpoint, {"method": "DraftModel", "model": f"hf://{DRAFT_REPOSITORY}"})
        served.kubectl("apply", "--filename=-", input=guessing(hub.endpoint, {"method": "Ngram"}))
        stack.wait_ready(cluster, NAME)
        load = Load(served.address, NAME)
        load.expect(plain)
        change = LoadedChange(load, say, REQUESTS, PHASE_SECONDS, BEFORE, AFTER)
        results = [change("n-grams: one engine more", lambda: served.scale(2))]
        killed = change("n-grams: SIGKILL", lambda: kill_container(cluster, min(served.pods("engine"))))
        assert killed.beyond(Fault.KILL_ENGINE) == ()
        stack.wait_engines(cluster, NAME, 2)
        of_ngrams = accepted(served, tiny)
        results += [
            change("from n-grams to a draft", lambda: rolled(served, drafted)),
            change("a draft: one engine less", lambda: served.scale(1)),
        ]
        of_draft = accepted(served, tiny)
        results.append(change("a draft: to zero and back", lambda: to_zero_and_back(served)))
    say(f"accepted: {of_ngrams:.0%} of n-grams, {of_draft:.0%} of the draft")
    assert [result.losses() for result in results] == [[]] * len(results)
    assert drafts.offsets == [0], "the Job of the model downloads it, once"
    assert 0 < of_draft < 1
