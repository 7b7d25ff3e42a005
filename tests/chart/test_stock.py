"""The chart with `images: Stock`: the operator's pod installs its program from a ConfigMap."""

from importlib.resources import files

from e2e.deploy.install import NAME, NAME_DIGITS, PROGRAM_FILE
from e2e.deploy.program import JOBS_FILE
from inference_operator.jobs import program
from tests.chart.helm import Helm
from tests.chart.test_objects import PREFIX, SHAPES, environment

SHA256 = "0123456789abcdef" * 4
STOCK = SHAPES["stock images"]


def test_stock_images_need_the_program_that_make_install_stores(helm: Helm) -> None:
    assert "stock.sha256 is missing: install with `make install`" in helm.refusal("images=Stock")


def test_the_operator_installs_the_program_with_the_given_hash(helm: Helm) -> None:
    pod = helm.one("Deployment", *STOCK, "stock.environment.PIP_INDEX_URL=$(A)")["spec"]["template"]["spec"]
    (install,), (operator,) = pod["initContainers"], pod["containers"]
    script = files("inference_operator.jobs").joinpath("install_program.sh").read_text()
    assert install["command"] == ["sh", "-euc", script.replace("$", "$$"), "install"]
    assert install["args"] == [f"/operator-program-source/{PROGRAM_FILE}", "/operator-program", SHA256]
    assert install["env"] == [{"name": "PIP_INDEX_URL", "value": "$$(A)"}]
    assert operator["command"] == ["python3", "/operator-program/lib"]
    (source,) = [one["configMap"] for one in pod["volumes"] if "configMap" in one]
    assert source == {"name": f"{NAME}-{SHA256[:NAME_DIGITS]}"}
    assert PROGRAM_FILE == program.PROGRAM_FILE


def test_routers_and_jobs_get_the_official_images_and_the_program(helm: Helm) -> None:
    deployment = helm.one("Deployment", *STOCK)
    (install,) = deployment["spec"]["template"]["spec"]["initContainers"]
    names = environment(deployment)
    assert names[f"{PREFIX}JOB_PROGRAM"] == f"/operator-program/lib/{JOBS_FILE}"
    assert names[f"{PREFIX}OPERATOR_IMAGE"] == install["image"] == "docker.io/library/python:3.13-slim-trixie"
    assert names[f"{PREFIX}ROUTER_IMAGE"] == "docker.io/library/haproxy:3.4-trixie"
    assert environment(helm.one("Deployment"))[f"{PREFIX}JOB_PROGRAM"] == ""
