"""A signed model on a real node: no engine without the signature, and none that runs is stopped for another one."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from e2e.deploy import stack
from e2e.deploy.local_registry import local_registry, put_image
from e2e.deploy.signing import Signer, cosign
from e2e.go_modules import ensure_cosign
from e2e.helpers.served_deployment import Served
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.state import layout
from e2e.localkube.waiting import eventually
from e2e.model.tiny_llama import model_folder
from e2e.test_cache import outside

NAME, KEYS = "signed", "model-keys"
VERIFY = {"configMapRef": {"name": KEYS}}
SENTENCE = "Ask platform@example.com."
SECONDS = 300

pytestmark = pytest.mark.full  # starts of an engine; e2e/test_verify.py has cosign, tests/jobs the decisions


@dataclass(frozen=True, slots=True)
class Stock:
    """A registry that the node and its pods reach, with two models of which one is signed, and two keys."""

    address: str
    folder: Path
    signed: str
    unsigned: str

    def key(self, name: str) -> str:
        return (self.folder / f"{name}.pub").read_text()


@pytest.fixture
def stock(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stock]:
    monkeypatch.setenv("COSIGN_PASSWORD", "of this test")
    (tmp_path / "tool").mkdir()
    shutil.copy(ensure_cosign(), tmp_path / "tool" / "cosign")
    for name in ("own", "other"):
        cosign("generate-key-pair", f"--output-key-prefix={tmp_path / name}")
    with local_registry(tmp_path) as registry:
        address = stack.authority(outside(cluster), int(registry.rpartition(":")[2]))
        put_image(registry, "cosign", "dev", tmp_path / "tool", command=["/cosign"])
        digests = {name: put_model(registry, name, tmp_path) for name in ("signed", "unsigned")}
        Signer(tmp_path / "own.key").sign(f"{registry}/signed@{digests['signed']}")
        trusted = layout(cluster.name).registries / address
        trusted.mkdir(parents=True)
        (trusted / "hosts.toml").write_text(f'server = "http://{address}"\n')
        yield Stock(address, tmp_path, *(f"oci://{address}/{name}@{digest}" for name, digest in digests.items()))
        shutil.rmtree(trusted)


def put_model(registry: str, name: str, folder: Path) -> str:
    """Push the tiny model with one more file, so that each has a digest of its own."""
    shutil.copytree(model_folder(), folder / "models" / name)
    (folder / "models" / name / "notes.txt").write_text(name)
    return put_image(registry, name, "1", folder / "models" / name)


@pytest.fixture
def served(cluster: LocalCluster, stock: Stock) -> Iterator[Served]:
    """The name of the resource, with an operator that knows the image of cosign."""
    stack.install_operator(cluster, {"verifier.image": f"{stock.address}/cosign:dev"})
    served = Served(cluster, NAME)
    try:
        yield served
        served.kubectl("delete", f"infd/{NAME}", f"configmap/{KEYS}", "--wait=true", "--ignore-not-found")
        served.await_gone()
    finally:
        stack.install_operator(cluster)


@pytest.fixture
def owned(served: Served, stock: Stock) -> Served:
    """The same, where the policy of the cluster's owner requires the signature of the first key."""
    required = {
        f"settings.policy.signatures.{name}": value
        for name, value in (("key", stock.key("own")), ("message", SENTENCE))
    }
    stack.install_operator(served.cluster, {"verifier.image": f"{stock.address}/cosign:dev", **required})
    return served


def put_key(served: Served, key: str) -> None:
    """Create or change the ConfigMap with the key."""
    content = {"metadata": {"name": KEYS}, "apiVersion": "v1", "kind": "ConfigMap", "data": {"cosign.pub": key}}
    served.kubectl("apply", "--filename=-", input=json.dumps(content))


def apply(served: Served, source: str, **model: object) -> None:
    """Create or change the resource."""
    sample = yaml.safe_load(stack.SAMPLE.read_text())
    sample["metadata"]["name"] = NAME
    sample["spec"]["model"] = {"source": source, **model}
    sample["spec"]["router"] = {"replicas": 1}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(sample))


def await_refusal(served: Served, said: str) -> None:
    """Wait until the verification has failed with these words."""

    def found() -> bool:
        stalled = stack.conditions(served.cluster, NAME).get("Stalled", {})
        return stalled.get("reason") == "VerificationFailed" and said in stalled["message"]

    eventually(found, seconds=SECONDS, what=lambda: str(stack.conditions(served.cluster, NAME)))


def test_no_engine_starts_without_the_signature_and_none_is_stopped_for_another_model(
    served: Served, stock: Stock
) -> None:
    apply(served, stock.signed, verify=VERIFY)
    await_refusal(served, "the key `cosign.pub` of the ConfigMap `model-keys` does not exist.")
    put_key(served, stock.key("other"))
    await_refusal(served, "is signed, but not with this key.")
    assert served.pods("engine") == {}
    put_key(served, stock.key("own"))
    eventually(
        lambda: stack.conditions(served.cluster, NAME).get("Stalled", {}).get("status") == "False",
        seconds=SECONDS,
        what=lambda: str(stack.conditions(served.cluster, NAME)),
    )
    stack.wait_ready(served.cluster, NAME)
    assert len(served.complete(max_tokens=8).split()) == 8
    engines = served.pods("engine")
    apply(served, stock.unsigned, verify=VERIFY)
    await_refusal(served, "has no signature in its registry.")
    assert served.pods("engine") == engines
    assert served.complete()
    jobs = json.loads(served.kubectl("get", "jobs", f"--selector=inference-operator.dev/name={NAME}", "--output=json"))
    assert {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in jobs["items"]} <= {"verification"}


def test_the_owners_policy_serves_only_what_the_owner_has_signed(owned: Served, stock: Stock) -> None:
    with pytest.raises(ClusterError, match=r"requires a signature, which only an image can have\..*Ask platform@"):
        apply(owned, "hf://Qwen/Qwen3-0.6B")
    apply(owned, stock.unsigned)
    await_refusal(owned, "has no signature in its registry. Sign it with `cosign sign --key`.")
    assert owned.pods("engine") == {}
    apply(owned, stock.signed)
    stack.wait_ready(owned.cluster, NAME)
    assert len(owned.complete(max_tokens=8).split()) == 8
    # The success of the Job is the record: after a restart of the operator no other one runs.
    jobs = (
        "get",
        "jobs",
        f"--selector=inference-operator.dev/name={NAME}",
        "--output=jsonpath={.items[*].metadata.uid}",
    )
    before = owned.kubectl(*jobs)
    assert len(before.split()) == 1
    operator = (f"--namespace={stack.SYSTEM}", f"deployment/{stack.RELEASE}")
    owned.kubectl("rollout", "restart", *operator)
    owned.kubectl("rollout", "status", "--timeout=120s", *operator)
    stack.wait_ready(owned.cluster, NAME)
    assert owned.kubectl(*jobs) == before
