"""`infd inspect` against a simulated hub, through the real hub client."""

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from inference_operator.jobs.inspection_result import parsed_result
from inference_operator.jobs.result import LIMIT
from inference_operator.model_files.hub import MAX_BYTES, MAX_REDIRECTS
from tests.router.test_tls import FORMATS, KEY, certificate
from tests.testing.forked_infd import ForkedInfd
from tests.testing.gguf_files import write_model
from tests.testing.hub import BRANCH, CHUNK, COMMIT, REPOSITORY, Hub, Request, endless, in_circles, serving, silent
from tests.testing.inspected import QWEN3

CONFIG = {**QWEN3, "torch_dtype": "bfloat16"}
UNREAD = {"transformers_version": "4.51.0", "use_cache": True, "initializer_range": 0.02, "bos_token_id": 151643}
SINGLE = {"model.safetensors": 16_381_470_720}
INDEX = "model.safetensors.index.json"
Infd = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(sizes=dict(SINGLE)).add("config.json", {**CONFIG, **UNREAD})) as served:
        yield served


@pytest.fixture
def inspect(hub: Hub, tmp_path: Path, infd_server: ForkedInfd) -> Infd:
    """Run `infd inspect` in a process of its own, since the hub's client reads its environment once; returns status and
    answer."""

    def run(*arguments: str, source: str = f"hf://{REPOSITORY}", **environment: str) -> tuple[int, dict[str, Any]]:
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), **environment}
        message = tmp_path / "message"
        words = ("inspect", source, "-o", "json", "--to", str(message), *arguments)
        answer = infd_server.run(*words, env=environment)
        assert answer.stderr == ""
        assert answer.stdout == message.read_text() + "\n"
        assert len(answer.stdout) <= LIMIT
        return answer.returncode, json.loads(answer.stdout)

    return run


def error(answer: tuple[int, dict[str, Any]]) -> tuple[str, str, str]:
    """Cause, problem and cure of what could not be inspected."""
    status, document = answer
    assert status == 1
    assert parsed_result(json.dumps(document)) is not None
    found = document["error"]
    assert found["field"]
    return found["cause"], found["problem"], found["cure"]


def test_only_small_files_are_downloaded_from_the_hub(hub: Hub, inspect: Infd) -> None:
    hub.sizes = {"1.safetensors": 12 * 2**30, "2.safetensors": 3 * 2**30, "other/3.safetensors": 2**40}
    hub.add(INDEX, {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})
    status, document = inspect()
    assert (status, document["model"], document["commit"]) == (0, REPOSITORY, COMMIT)
    assert document["source"] == f"hf://{REPOSITORY}@{COMMIT}:config.json"
    assert document["weights"] == {"gib": 15.0, "source": f"2 files of {INDEX}", "exact": True}
    assert document["config"] == CONFIG
    files = [
        f"{verb} /{REPOSITORY}/resolve/{COMMIT}/{name}" for name in (INDEX, "config.json") for verb in ("HEAD", "GET")
    ]
    assert hub.asked == [f"GET /api/models/{REPOSITORY}", *files]


@pytest.mark.parametrize(
    ("second", "downloaded"),
    [("consolidated.safetensors", 24), ("original/model.safetensors", 12), ("metal/model.bin", 12)],
)
def test_an_inspection_counts_what_a_download_takes_beside_what_engines_load(
    hub: Hub, inspect: Infd, second: str, downloaded: int
) -> None:
    """As in mistralai/Mistral-7B-Instruct-v0.3 and openai/gpt-oss-20b, which have their weights more than once."""
    hub.sizes = {"model.safetensors": 12 * 2**30, second: 12 * 2**30}
    _, document = inspect()
    assert document["weights"]["gib"] == 12
    assert document["downloadGib"] == pytest.approx(downloaded, abs=0.001)


def test_the_small_files_of_one_commit_are_read_from_the_hub(hub: Hub, inspect: Infd) -> None:
    hub.add("tokenizer_config.json", {"model_max_length": 131072, "chat_template": "{{ messages }}"})
    hub.add("generation_config.json", {"max_new_tokens": 2048})
    hub.add("tokenizer.json", {"large": True})
    _, document = inspect()
    assert document["side"] == {"tokenizer_max_length": 131072, "has_chat_template": True, "max_new_tokens": 2048}
    assert {path.split("/resolve/")[1].split("/")[0] for path in hub.asked if "/resolve/" in path} == {COMMIT}
    assert not [path for path in hub.asked if path.endswith("tokenizer.json")]


def test_plan_render_and_fit_use_the_files_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    resource = tmp_path / "mine.yaml"
    resource.write_text(
        "apiVersion: inference-operator.dev/v1alpha1\nkind: InferenceDeployment\nmetadata: {name: mine}\n"
        f"spec: {{model: {{source: 'hf://{REPOSITORY}'}}}}\n"
    )
    environment = {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")}

    def infd(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("infd")), *arguments, "--gpu", "H100:8"]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, "")
        return answer.stdout

    assert f"From its files (hf://{REPOSITORY}@{COMMIT}:config.json)" in infd("plan", "-v", "-f", str(resource))
    assert f"--revision={COMMIT}" in infd("render", "-f", str(resource))
    assert json.loads(infd("fit", REPOSITORY, "-o", "json"))["items"][0]["weightsGiB"] == pytest.approx(15.26, abs=0.1)


DOWNLOAD = """
import sys, huggingface_hub
print(huggingface_hub.snapshot_download(sys.argv[1], revision=sys.argv[2]))
"""


def test_the_hub_of_these_tests_serves_a_download_of_the_real_client_that_is_cut_and_resumed(
    hub: Hub, tmp_path: Path
) -> None:
    cut = 12 * 2**20  # the client writes chunks of 10 MiB (huggingface_hub 2.4.0, `constants.py`)
    hub.sizes, content = {}, bytes(range(256)) * 2**16
    hub.large["model.safetensors"], hub.cut_after = content, cut
    environment = {"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", DOWNLOAD, REPOSITORY, COMMIT]
    answer = subprocess.run(
        command, env={**environment, "HF_HUB_DISABLE_XET": "1"}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    folder = Path(answer.stdout.strip())
    assert (folder.name, (folder / "model.safetensors").read_bytes() == content) == (COMMIT, True)
    assert (hub.offsets[0], 0 < hub.offsets[-1] <= cut, len(hub.offsets)) == (0, True, 2)


def test_the_requested_revision_is_read_from_the_hub(hub: Hub, inspect: Infd) -> None:
    assert inspect("--revision", BRANCH)[1]["commit"] == COMMIT
    assert hub.asked[0] == f"GET /api/models/{REPOSITORY}/revision/{BRANCH}"
    cause, problem, cure = error(inspect("--revision", "nosuch"))
    assert (cause, problem, cure) == ("NotFound", "has no revision `nosuch`.", "Check the revision on the hub.")


def test_a_gated_model_is_readable_only_with_the_token(hub: Hub, inspect: Infd) -> None:
    hub.token = "hf_right"  # noqa: S105 - of our own hub
    cause, problem, cure = error(inspect())
    assert (cause, problem) == ("Gated", "the hub gives this gated model only to accounts that accepted its licence.")
    assert "`HF_TOKEN`" in cure
    assert error(inspect(HF_TOKEN="hf_wrong"))[0] == "Gated"  # noqa: S106 - of our own hub
    assert inspect(HF_TOKEN="hf_right")[0] == 0  # noqa: S106 - of our own hub


def test_an_absent_or_private_model_is_reported_as_not_found(inspect: Infd) -> None:
    cause, problem, cure = error(inspect(source="hf://nobody/private"))
    assert (cause, problem) == ("NotFound", "does not exist on the hub, or this account may not see it.")
    assert "`spec.model.source`" in cure


@pytest.mark.parametrize(
    ("status", "cause", "words"),
    [
        (401, "Gated", "the token"),
        (403, "Gated", "this account may not read"),
        (404, "NotFound", "does not exist at"),
        (429, "Unreachable", "too many requests"),
        (500, "Unreachable", "the error 500"),
        (503, "Unreachable", "the error 503"),
    ],
)
def test_an_http_status_without_a_hub_error_code_is_explained_in_words(
    hub: Hub, inspect: Infd, status: int, cause: str, words: str
) -> None:
    hub.odd["model"] = lambda request: request.refuse(status)
    found, problem, _ = error(inspect())
    assert (found, words in problem) == (cause, True)


def test_a_hub_without_a_listener_is_reported_as_unreachable(inspect: Infd) -> None:
    assert error(inspect(HF_ENDPOINT="http://127.0.0.1:9"))[:2] == ("Unreachable", "the hub cannot be reached.")


def test_a_certificate_that_nobody_trusts_is_named(inspect: Infd, tmp_path: Path) -> None:
    far = datetime.now(UTC) + timedelta(days=1)
    (tmp_path / "cert.pem").write_bytes(certificate(far))
    (tmp_path / "key.pem").write_bytes(
        KEY.private_bytes(serialization.Encoding.PEM, FORMATS["PKCS 8"], serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        cause, problem, cure = error(inspect(HF_ENDPOINT=f"https://127.0.0.1:{server.server_port}"))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert (cause, problem) == ("Unreachable", "the certificate of the hub or of the proxy is not trusted.")
    assert "SSL_CERT_FILE" in cure


def test_a_server_that_is_no_hub_is_reported_as_unreachable(hub: Hub, inspect: Infd) -> None:
    hub.odd["model"] = lambda request: request.give(b"<html>Log in to this network</html>")
    assert error(inspect())[:2] == ("Unreachable", "the response is not from a hub.")
    hub.odd["model"] = lambda request: request.give(b'["a list"]')
    assert error(inspect())[:2] == ("Unreachable", "the response is not from a hub.")


def test_a_download_from_a_slow_hub_ends_at_the_time_limit(hub: Hub, inspect: Infd) -> None:
    hub.odd["model"] = silent
    assert error(inspect("--time-limit", "1"))[:2] == ("TimedOut", "could not be read within 1 s.")


def test_waiting_for_a_retry_after_of_hours_ends_at_the_time_limit(hub: Hub, inspect: Infd) -> None:
    def limited(request: Request) -> None:
        if request.command == "HEAD":
            request.give(hub.files["config.json"])
        else:
            request.refuse(429, Retry_After="36000")

    hub.odd["config.json"] = limited
    assert error(inspect("--time-limit", "1"))[0] == "TimedOut"


def test_a_cache_that_cannot_be_written_is_no_response_that_ended_early(inspect: Infd) -> None:
    assert error(inspect(HF_HOME="/dev/null/home"))[1] == "`HF_HOME` is not writable."


def test_a_file_listed_as_too_large_is_not_downloaded(hub: Hub, inspect: Infd) -> None:
    hub.sizes["config.json"] = 2**40
    assert error(inspect())[:2] == ("Unusable", "is larger than 4 MiB.")
    assert len(hub.asked) == 1


@pytest.mark.parametrize("what", ["model", "config.json"])
def test_an_endless_response_of_the_hub_is_cut_off(hub: Hub, inspect: Infd, what: str) -> None:
    hub.odd[what] = endless
    cause, problem, _ = error(inspect())
    assert (cause, problem) == ("Unreachable", f"a response of the hub is larger than {MAX_BYTES // 2**20} MiB.")
    assert hub.sent_bytes < 2 * MAX_BYTES + 100 * CHUNK


def test_a_compressed_response_of_the_hub_is_refused(hub: Hub, inspect: Infd) -> None:
    hub.odd["model"] = lambda request: request.give(b"compressed", Content_Encoding="gzip")
    assert "compressed response" in error(inspect())[1]


@pytest.mark.parametrize("what", ["model", "config.json"])
def test_a_redirect_loop_of_the_hub_ends_with_an_error(hub: Hub, inspect: Infd, what: str) -> None:
    hub.odd[what] = in_circles
    assert error(inspect())[:2] == ("Unreachable", "the hub redirects without end.")
    assert len(hub.asked) <= 3 * (MAX_REDIRECTS + 1) + 1


def test_a_redirect_to_the_storage_of_large_files_is_followed(hub: Hub, inspect: Infd) -> None:
    hub.add("elsewhere.json", CONFIG)
    hub.odd["config.json"] = lambda request: request.refuse(
        302,
        Location=f"/{REPOSITORY}/resolve/{COMMIT}/elsewhere.json",
        X_Repo_Commit=COMMIT,
        X_Linked_Etag='"large"',
        X_Linked_Size=str(len(hub.files["config.json"])),
    )
    assert inspect()[1]["config"] == CONFIG


def test_a_truncated_file_of_the_hub_is_reported(hub: Hub, inspect: Infd) -> None:
    content = hub.files["config.json"]
    hub.odd["config.json"] = lambda request: request.give(content[:-10], length=len(content))
    cause, problem, _ = error(inspect("--time-limit", "20"))
    assert cause == "Unreachable"
    assert "ended early" in problem


@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        (b"{", "config.json", "is not valid JSON."),
        (b"[" * 100_000, "config.json", "is not valid JSON."),
        (b"[]", "config.json", "is not a JSON object."),
        (b"{}", "config.json.num_hidden_layers", "is missing."),
    ],
)
def test_an_invalid_config_is_reported_with_its_field(
    hub: Hub, inspect: Infd, content: bytes, field: str, problem: str
) -> None:
    hub.files["config.json"] = content
    status, document = inspect()
    assert status == 1
    assert (document["error"]["cause"], document["error"]["field"]) == ("Unusable", field)
    assert document["error"]["problem"] == problem


def test_of_a_gguf_file_only_the_begin_is_read(hub: Hub, inspect: Infd, tmp_path: Path) -> None:
    content = write_model(tmp_path / "model-q8.gguf").read_bytes()
    hub.large, hub.sizes = {"model-q8.gguf": content + bytes(2**20)}, {}
    del hub.files["config.json"]
    found = inspect()[1]
    assert (found["config"]["architectures"], found["weights"]["source"]) == (["llama"], "model-q8.gguf")
    assert not hub.offsets, "no download"
    hub.files, hub.large = {"model-q8.gguf": content + bytes(2**20)}, {}
    assert inspect()[1] == found, "of a mirror that gives whole files"


def test_a_file_in_a_folder_is_one_of_several_models(hub: Hub, inspect: Infd, tmp_path: Path) -> None:
    content = write_model(tmp_path / "a.gguf").read_bytes()
    hub.large, hub.sizes = {"Q4/a.gguf": content, "Q8/a.gguf": content + b"more"}, {}
    assert error(inspect())[1] == "its 2 GGUF models are in folders."
    found = inspect(source=f"hf://{REPOSITORY}/Q4/a.gguf")[1]
    assert (found["weights"]["source"], found["weights"]["gib"] * 2**30) == ("a.gguf", len(content))
    assert found["downloadGib"] == found["weights"]["gib"]


def test_a_repository_without_config_or_weights_is_reported(hub: Hub, inspect: Infd) -> None:
    hub.sizes = {}
    assert error(inspect())[:2] == ("Unusable", "no safetensors or GGUF file is there.")
    del hub.files["config.json"]
    assert error(inspect())[:2] == ("Unusable", "has no `config.json`.")


def test_in_offline_mode_the_model_is_read_from_the_cache_without_a_request(
    hub: Hub, inspect: Infd, tmp_path: Path
) -> None:
    offline = {"HF_HUB_OFFLINE": "1"}
    cause, problem, _ = error(inspect(**offline))
    assert (cause, problem) == ("Unreachable", "`HF_HUB_OFFLINE` is set, and the model is not in the cache.")
    assert not hub.asked
    repository = tmp_path / "home" / "hub" / "models--org--model"
    snapshot, blobs = repository / "snapshots" / COMMIT, repository / "blobs"
    for folder in (snapshot, blobs, repository / "refs"):
        folder.mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    (snapshot / "config.json").write_bytes(hub.files["config.json"])
    (blobs / "weights").touch()
    os.truncate(blobs / "weights", 15 * 2**30)
    (snapshot / "model.safetensors").symlink_to(blobs / "weights")
    status, document = inspect(**offline)
    assert (status, document["commit"], document["weights"]["gib"]) == (0, COMMIT, 15.0)
    assert not hub.asked
