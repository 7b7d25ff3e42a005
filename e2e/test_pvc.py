"""A model in a folder of a volume that somebody else made."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest
import yaml

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.model.tiny_llama import model_folder
from e2e.served import Served

NAME, FOLDER = "from-volume", "llamas/tiny"
VOLUME = Path(__file__).with_name("test_pvc.yaml")


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local disk that holds the tiny model's files."""
    disk = cluster.volumes / "models"
    shutil.copytree(model_folder(), disk / FOLDER, dirs_exist_ok=True)
    objects = Template(VOLUME.read_text()).substitute(path=disk)
    cluster.kubectl("apply", "--filename=-", input=objects)
    yield "models"
    cluster.kubectl("delete", "--filename=-", "--wait=true", input=objects)


def test_a_model_out_of_a_volume_answers(cluster: LocalCluster, claim: str) -> None:
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["model"]["source"] = f"pvc://{claim}/{FOLDER}"
    resource["spec"]["router"] = {"replicas": 1}
    served = Served(cluster, NAME)
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        stack.wait_ready(cluster, NAME)
        assert len(served.complete(max_tokens=8).split()) == 8
    finally:
        served.kubectl("delete", f"infd/{NAME}", "--wait=true")
        served.await_gone()
