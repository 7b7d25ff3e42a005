"""Jobs whose image is the official one of Python: they install the operator's program and check it first."""

import base64
import copy
import hashlib
import subprocess
from pathlib import Path

import pytest

from inference_operator.jobs.download import Download, download_task
from inference_operator.jobs.inspection import inspection_task
from inference_operator.jobs.placement import WritableClaim
from inference_operator.jobs.program import PROGRAM_FILE
from inference_operator.jobs.state import ObservedJobs, job_state
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner
from inference_operator.roles.context import SharedContext
from inference_operator.settings import Settings
from tests.jobs.shared import shared_context
from tests.testing.builders import KEY, NOW, UID, inference_deployment
from tests.testing.schemas import validate

PROGRAM = b"a program"
SHA256 = hashlib.sha256(PROGRAM).hexdigest()
OWNER = Owner(KEY, UID)
STOCK = Settings(
    operator_image="docker.io/library/python:3.13-slim-trixie",
    job_program=PROGRAM,
    program_environment={"PIP_INDEX_URL": "https://pypi.example/$(HF_TOKEN)"},
)
PUBLISHED = Settings(operator_image="example.com/operator:1")


def inputs(settings: Settings, **more: object) -> SharedContext:
    raw = inference_deployment(source="hf://org/model")
    return shared_context({**raw, "spec": {**raw["spec"], **more}}, OWNER, settings)


def inspection(settings: Settings, **more: object) -> tuple[Manifest, Manifest]:
    """The pod of the Job, and its ConfigMap."""
    jobs = inspection_task(inputs(settings, **more))
    made = jobs.job(1, None)
    validate(copy.deepcopy(made), "1.36")
    (program,) = jobs.program.values() or [{}]
    pod: Manifest = made["spec"]["template"]["spec"]
    return pod, program


def test_the_init_container_gets_the_hash_of_the_program_from_the_job_and_runs_the_copy() -> None:
    pod, program = inspection(STOCK)
    (install,), (container,) = pod["initContainers"], pod["containers"]
    assert install["args"] == [f"/operator-program-source/{PROGRAM_FILE}", "/operator-program", SHA256]
    assert "sha256sum --check" in install["command"][2]
    assert container["command"] == ["python3", "/operator-program/lib", "inspect", "hf://org/model"]
    mounted = {one["name"]: one.get("readOnly", False) for one in container["volumeMounts"]}
    assert mounted["operator-program"] is True
    assert "operator-program-source" not in mounted
    (source,) = [one for one in pod["volumes"] if one["name"] == "operator-program-source"]
    assert source["configMap"]["name"] == program["metadata"]["name"]


def test_what_is_not_the_program_of_the_job_is_neither_unpacked_nor_started(tmp_path: Path) -> None:
    pod, _ = inspection(STOCK)
    (install,) = pod["initContainers"]
    source, into = tmp_path / "source", tmp_path / "into"
    into.mkdir()
    source.write_bytes(PROGRAM + b"of somebody else")
    done = subprocess.run(
        [*install["command"][:2], install["command"][2].replace("$$", "$"), "install", source, into, SHA256],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "is not the one that this pod was made for" in done.stderr
    assert not list((into / "lib").iterdir())


def test_the_program_lies_in_an_immutable_config_map_of_the_resource() -> None:
    _, program = inspection(STOCK)
    validate(copy.deepcopy(program), "1.36")
    assert program["immutable"] is True
    assert base64.b64decode(program["binaryData"][PROGRAM_FILE]) == PROGRAM
    assert program["metadata"]["ownerReferences"] == [OWNER.reference]
    assert program["metadata"]["name"].endswith(SHA256[:16])


def test_the_container_that_installs_has_variables_of_the_administrator_only() -> None:
    env = [{"name": "PIP_INDEX_URL", "value": "https://evil.example"}, {"name": "HF_ENDPOINT", "value": "http://a"}]
    pod, _ = inspection(STOCK, engine={"env": env})
    (install,) = pod["initContainers"]
    assert install["env"] == [{"name": "PIP_INDEX_URL", "value": "https://pypi.example/$$(HF_TOKEN)"}]
    assert {one["name"] for one in pod["volumes"]} >= {"operator-program", "operator-program-source"}
    assert [one["name"] for one in install["volumeMounts"]] == ["operator-program-source", "operator-program"]


def test_a_published_image_needs_no_program() -> None:
    pod, program = inspection(PUBLISHED)
    assert program == {}
    assert "initContainers" not in pod
    assert pod["containers"][0]["command"] == ["infd", "inspect", "hf://org/model"]


@pytest.mark.parametrize("settings", [STOCK, PUBLISHED])
def test_a_download_runs_the_same_program(settings: Settings) -> None:
    download = Download(inputs(settings), "0" * 40, WritableClaim("models"))
    pod = download_task(download).content["spec"]["template"]["spec"]
    start = ["python3", "/operator-program/lib"] if settings is STOCK else ["infd"]
    assert pod["containers"][0]["command"] == [*start, "download", "hf://org/model"]


def test_another_program_is_another_job() -> None:
    other = STOCK.model_copy(update={"job_program": b"another program"})
    names = {one["volumes"][-2]["configMap"]["name"] for one, _ in (inspection(STOCK), inspection(other))}
    assert len(names) == 2


def test_the_config_map_exists_as_long_as_a_job_does() -> None:
    task = inspection_task(inputs(STOCK))
    observed = ObservedJobs({}, [], NOW, {})
    assert CONFIG_MAP in {ref.kind for ref in job_state(task, observed).desired}
    assert not job_state(task, observed, wanted=False).desired
