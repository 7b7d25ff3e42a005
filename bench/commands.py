"""How long commands of `infd` take: `python -m bench.commands`.

From the start of the process to its end, the fastest of some rounds. Python's bytecode is compiled before, as in the
operator's image and after the first call of an installed `infd`. The model is one of the catalogue, so that no network
counts. `status` asks an API server of stored answers on the loopback about two engines and two routers. Beside them: a
key press in a shell that completes a command, Python alone, and kubectl where it is on the PATH.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Aim, Figure, at_most, parser_of, shown
from bench.rendered import resource
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.stats import SAMPLE_PATH
from tests.status.situations import SERVING, reported
from tests.testing.builders import inference_deployment, pod, ready_pod
from tests.testing.stored_answers import listing, stored_answers

ROUNDS = 7
AIMS: Mapping[str, Aim] = {
    "--help": at_most(0.1),
    "--version": at_most(0.1),
    "plan": at_most(0.6),
    "list": at_most(0.4),
    "status": at_most(1),
}
"""Seconds of the commands: what feels immediate, and what still feels like an answer."""
COMPLETION_AIM = at_most(0.3)
"""Seconds of a key press: as immediate as help."""
KUBECONFIG = "kubeconfig"
NAME = "qwen"
PODS = POD.path("default")
PAGES = {
    ENGINE: {"/metrics": "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"},
    ROUTER: {
        SAMPLE_PATH: "# pxname,svname,qcur,scur,stot,addr,\nengines,BACKEND,2,2,9,,\n",
        ROUTER_METRICS_PATH: "",
    },
}
"""The pages with metrics of a pod."""
_INFD = "import sys; from inference_operator.cli.main import main; sys.exit(main(sys.argv[1:]))"
_COMPLETER = "from inference_operator.cli.completer import kubectl; kubectl()"


def main(arguments: Sequence[str]) -> int:
    """Print the figures; returns the exit status."""
    parser = parser_of("python -m bench.commands", "How long commands of infd take.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="calls of each command; the fastest counts")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, stored_answers(Path(folder) / KUBECONFIG) as answers:
        answers.update(stored())
        figures = measured(Path(folder), asked.rounds)
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


def measured(folder: Path, rounds: int) -> list[Figure]:
    """The figures of all commands; a folder takes the bytecode."""
    file = folder / "resource.yaml"
    file.write_text(resource({}))
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**own, "PYTHONPYCACHEPREFIX": str(folder), "INFERENCE_OPERATOR_MODEL_INSPECTION": "WhenUnknown"}
    at = f"--kubeconfig={folder / KUBECONFIG}"
    commands = {"--help": [], "--version": [], "plan": [f"--filename={file}"], "list": [at], "status": [at, NAME]}
    python = [sys.executable, "-c"]

    def figure(name: str, words: Sequence[str], aim: Aim | None = None) -> Figure:
        return Figure(name, _fastest(words, environment, rounds), "s", aim)

    found = [figure(f"infd {name}", [*python, _INFD, name, *rest], AIMS[name]) for name, rest in commands.items()]
    found.append(figure("completion of a command", [*python, _COMPLETER, "sta"], COMPLETION_AIM))
    found.append(figure("python -c pass", [*python, "pass"]))
    if kubectl := shutil.which("kubectl"):
        found.append(figure("kubectl version --client", [kubectl, "version", "--client"]))
    return found


def stored() -> Mapping[str, bytes]:
    """What the API server answers about a resource that serves."""
    raw = inference_deployment(name=NAME)
    live = {**raw, "status": reported(SERVING).status.dump()}
    names = {component: [f"{NAME}-{component}-{one}" for one in "ab"] for component in (ENGINE, ROUTER)}
    ports = {ENGINE: {"http": 8000}, ROUTER: {"metrics-0": 9100, "metrics-1": 9101}}
    listed = [
        {
            **pod(name=name, component=component, status=ready_pod()),
            "spec": {"containers": [{"name": component, "ports": _ports(ports[component])}]},
        }
        for component, pods in names.items()
        for name in pods
    ]
    pages = {
        f"{PODS}/{name}:{port}/proxy{path}": page
        for component, pods in names.items()
        for name in pods
        for port in ports[component].values()
        for path, page in PAGES[component].items()
    }
    resources = Ref.of(live).path
    return {
        resources: json.dumps(live).encode(),
        resources.rpartition("/")[0]: listing(live),
        PODS: listing(*listed),
        "/api/v1/namespaces/default/events": listing(),
        **{path: page.encode() for path, page in pages.items()},
    }


def _ports(ports: Mapping[str, int]) -> list[Manifest]:
    return [{"name": name, "containerPort": port} for name, port in ports.items()]


def _fastest(words: Sequence[str], environment: Mapping[str, str], rounds: int) -> float:
    """Seconds of the fastest call. One call before compiles what the command imports."""
    taken = []
    for _ in range(1 + rounds):
        begin = time.monotonic()
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.monotonic() - begin)
    return min(taken[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
