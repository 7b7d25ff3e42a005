"""Whatever an engine, a kubelet or a Job writes, its readers return, and show no control character and no secret."""

import unicodedata
from collections.abc import Iterator

import pytest

from inference_operator.diagnosis.unschedulable import scheduler_sentence
from inference_operator.engines.group.ends import absent_members, first_end
from inference_operator.engines.group.network import network_in_use
from inference_operator.engines.registry import ENGINES
from inference_operator.jobs.download_result import parsed_adapter, parsed_download
from inference_operator.jobs.inspection_result import parsed_result
from inference_operator.jobs.result import Failure
from inference_operator.jobs.verification import parsed_failure
from inference_operator.router.stats import router_sample
from inference_operator.views.pod import pod_view
from inference_operator.views.samples import adapter_report
from inference_operator.views.untrusted_text import log_tail, one_line, termination_message
from tests.testing.untrusted_texts import UntrustedText, untrusted_texts

HIDDEN_KINDS = {"Cc", "Cf", "Cs"}


def shown_of_logs(text: str) -> Iterator[str]:
    """All that is shown of a text that is a log, a message of Kubernetes or a termination message."""
    log = log_tail(text, lines=10_000, size=1 << 20)
    yield from (log, one_line(text), termination_message(text), scheduler_sentence(one_line(text)))
    yield from (network_in_use(log), *absent_members(log), str(first_end(one_line(text))))
    for engine in ENGINES.by_name.values():
        diagnosis = engine.diagnose(log)
        yield from (diagnosis.cause if diagnosis else "", str(engine.shortage(log)), str(engine.load_progress(log)))
        engine.phase(log)


def shown_of_jobs(text: str) -> Iterator[str]:
    for parsed in (
        parsed_adapter(text),
        parsed_download(text),
        parsed_result(text),
        parsed_failure(text, "a@sha256:0"),
    ):
        yield parsed.message if isinstance(parsed, Failure) else ""


def shown_of_pods(text: str) -> Iterator[str]:
    ended = {"exitCode": 1, "reason": text, "message": text, "startedAt": text, "finishedAt": text}
    for status in (
        {"phase": "Failed", "reason": text, "message": text},
        {"containerStatuses": [{"name": "engine", "restartCount": 7, "state": {"terminated": ended}}]},
        {"containerStatuses": [{"name": "engine", "state": {"waiting": {"reason": "ErrImagePull", "message": text}}}]},
        {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable", "message": text}]},
    ):
        problem = pod_view({"metadata": {"name": "a"}, "status": status}, component="engine").problem
        yield problem.cause if problem else ""
        yield problem.terminated.message if problem and problem.terminated else ""


def read_figures(text: str) -> None:
    router_sample(text)
    adapter_report(text)
    for engine in ENGINES.by_name.values():
        engine.sample(text)
        engine.load(text)


def assert_harmless(given: UntrustedText) -> None:
    read_figures(given.text)
    for read in (shown_of_logs, shown_of_jobs, shown_of_pods):
        for shown in read(given.text):
            odd = [one for one in shown if one not in "\n\t" and unicodedata.category(one) in HIDDEN_KINDS]
            assert not odd, (given.text, shown)
            assert not [secret for secret in given.secrets if secret in shown], (given.text, shown)


def test_readers_of_any_text_return_and_show_nothing_harmful() -> None:
    for given in untrusted_texts(seed=1, count=1_000):
        assert_harmless(given)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 7))
def test_readers_of_many_texts_return_and_show_nothing_harmful(seed: int) -> None:
    for given in untrusted_texts(seed=seed, count=4_000):
        assert_harmless(given)
