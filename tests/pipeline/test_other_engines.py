"""An engine without metrics and with another budget goes through the pipeline, the status, autoscaling and `infd`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.cli.main import main
from inference_operator.engines.registry import ENGINES as RELEASED
from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER, Ref
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.status.report import report
from tests.testing.builders import CONFIG, ENGINES, inference_deployment, inputs
from tests.testing.preallocating_engine import ORIGIN, PREALLOCATING, REGISTRY, SLOTS
from tests.testing.second_engine import IMAGE, PORT

SAMPLE = Path(__file__).parents[2] / "manifests" / "samples" / "quickstart.yaml"
HPA = Ref(HORIZONTAL_POD_AUTOSCALER, "default", "qwen")


def given(**spec: object) -> Inputs:
    return replace(inputs(inference_deployment(**spec)), engines=REGISTRY)  # type: ignore[arg-type]


def planned(**spec: object) -> Planned:
    found = outcome(given(**spec))
    assert isinstance(found, Planned), found
    return found


def test_sizes_follow_from_the_budget_of_the_engine() -> None:
    plan = planned().plan
    assert (plan.engine, plan.image, plan.plan.max_num_seqs) == (PREALLOCATING, IMAGE, SLOTS)
    assert plan.plan.gpu_memory_utilization == 1.0
    assert plan.plan.per_gpu is not None
    assert plan.plan.per_gpu.origins["activation"] == ORIGIN


def test_the_rules_of_parallel_sizes_are_those_of_the_engine() -> None:
    assert planned(parallelism={"tensor": 3}).plan.plan.gpus_per_replica == 3
    refused = [
        outcome(given(parallelism={"tensor": 2})),
        outcome(replace(given(parallelism={"tensor": 3}), engines=RELEASED)),
    ]
    problems = [one.refusal.problem for one in refused if isinstance(one, Refused)]
    assert problems == ["No 2 GPUs share the layers.", "32 attention heads are not divisible by 3."]


def test_the_pod_waits_before_sigterm_where_no_program_can_ask_the_engine() -> None:
    made = planned(drainTimeout="2m")
    (container,) = made.desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["llama-server"]
    (hook,) = container["lifecycle"]["preStop"].items()
    assert hook[0] == "sleep"
    assert 120 < hook[1]["seconds"] < made.desired[ENGINES]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert f":{PORT}" in made.desired[CONFIG]["data"]["haproxy.cfg"]


def test_another_autoscaler_asks_the_routers_for_the_demand() -> None:
    made = planned(autoscaling={"maxReplicas": 4, "backend": "HPA"})
    query = made.desired[HPA]["metadata"]["annotations"]["inference-operator.dev/prometheus-query"]
    assert "haproxy_backend_active_servers" in query
    assert "-engine-" not in query


def test_the_status_tells_of_the_plan() -> None:
    found = given()
    status = report(found, outcome(found), []).status
    sized = next(one for one in status.conditions if one.type == "Sized")
    assert (sized.status, sized.reason) == ("True", Reason.FITS)


@pytest.mark.parametrize(("field", "value"), [("kvCacheDtype", "fp8"), ("gpuMemoryUtilization", 0.5)])
def test_a_field_that_the_engine_does_not_support_is_refused_by_name(field: str, value: object) -> None:
    found = outcome(given(engine={field: value}))
    assert isinstance(found, Refused)
    assert found.refusal.message == f"spec.engine.{field}: This engine does not support the field `{field}`. Remove it."


@pytest.mark.parametrize("command", ["render", "plan"])
def test_infd_plans_for_the_engine(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--filename", str(SAMPLE), "--gpu", "H100"], REGISTRY)
    assert ended.value.code == 0
    assert capsys.readouterr().out


def test_infd_fit_counts_as_the_engine_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "Qwen/Qwen3-8B", "--gpu", "H100", "-o", "json"], REGISTRY)
    (answer,) = json.loads(capsys.readouterr().out)["items"]
    assert (answer["fits"], answer["maxNumSeqs"], answer["cudaGraphGiB"]) == (True, SLOTS, 0)
