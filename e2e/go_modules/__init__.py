"""Commands of other projects for tests, each built from a pinned Go module in a folder here, and their CRDs.

`e2e/localkube/binaries.py` builds each once, into the user's cache folder.
"""

import subprocess
from pathlib import Path

from e2e.localkube.binaries import FLAGS, Command, ensure, exclusive, module_folder
from e2e.localkube.toolchain import go_command, go_environment

MODULES = Path(__file__).parent
ETCD_MODULE = MODULES / "etcd"
KEDA_ADAPTER, KEDA_OPERATOR = "keda-adapter", "keda-operator"
PROMETHEUS, PROMTOOL = "prometheus", "promtool"
_PROMETHEUS_FLAGS = ("-trimpath", "-tags", "remove_all_sd,enable_kubernetes_sd", *FLAGS[1:])
"""Of service discovery only Kubernetes: the rest brings clients of 20 clouds. And without the web interface."""


def ensure_actionlint() -> Path:
    """The checker of workflow files (half a minute)."""
    return _built("actionlint", "actionlint", "github.com/rhysd/actionlint/cmd/actionlint")


def ensure_argo_cd() -> Path:
    """The command that runs customizations, syncs and compares with Argo CD's own code."""
    return _built("argo_cd", "argo-cd", ".")


def ensure_collector() -> Path:
    """A collector of OpenTelemetry, for the test of spans (a minute on two cores)."""
    return _built("collector", "collector", ".")


def ensure_coscheduler() -> Path:
    """A scheduler with the plugin Coscheduling (half an hour on two busy cores)."""
    return _built("coscheduling", "coscheduler", ".")


def coscheduling_definition() -> Path:
    """The file with the CRD of Coscheduling's groups, in Go's module cache."""
    folder = module_folder(MODULES / "coscheduling", "sigs.k8s.io/scheduler-plugins")
    return folder / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"


def ensure_crane() -> Path:
    """The command that copies and assembles images between registries (half a minute)."""
    return _built("crane", "crane", "github.com/google/go-containerregistry/cmd/crane")


def ensure_etcdutl() -> Path:
    """The command that restores snapshots of etcd (a minute on two cores)."""
    return _built("etcd", "etcdutl", "go.etcd.io/etcd/etcdutl/v3")


def ensure_helm_3() -> Path:
    """The Helm before, for the tests that install with it."""
    return _built("helm3", "helm3", "helm.sh/helm/v3/cmd/helm")


def ensure_karpenter() -> tuple[Path, list[Path]]:
    """Karpenter with its provider `kwok`, and the files with its CRDs."""
    folder = module_folder(MODULES / "karpenter", "sigs.k8s.io/karpenter")
    definitions = [*(folder / "pkg/apis/crds").glob("*.yaml"), *(folder / "kwok/apis/crds").glob("*.yaml")]
    return _built("karpenter", "karpenter-kwok", "sigs.k8s.io/karpenter/kwok"), definitions


def ensure_keda() -> Path:
    """The folder with KEDA's operator and metrics adapter (ten minutes on two cores)."""
    packages = {KEDA_OPERATOR: "operator", KEDA_ADAPTER: "adapter"}
    commands = [Command(name, f"github.com/kedacore/keda/v2/cmd/{package}") for name, package in packages.items()]
    return ensure(commands, MODULES / "keda", FLAGS)


def keda_definitions() -> list[Path]:
    """The files with KEDA's CRDs, in Go's module cache; Go downloads the module if it is missing (3 MB)."""
    folder = module_folder(MODULES / "keda", "github.com/kedacore/keda/v2")
    return sorted((folder / "config/crd/bases").glob("*.yaml"))


def ensure_krew() -> tuple[Path, Path]:
    """The manager of kubectl's plugins, and its check of manifests (a minute on two cores)."""
    names = ("krew", "validate-krew-manifest")
    folder = ensure([Command(name, f"sigs.k8s.io/krew/cmd/{name}") for name in names], MODULES / "krew", FLAGS)
    return folder / names[0], folder / names[1]


def ensure_kstatus() -> Path:
    """The command that applies kstatus to a list of recorded objects."""
    return _built("kstatus", "kstatus", ".")


def ensure_kueue() -> tuple[Path, Path]:
    """Kueue's controller (ten minutes), and the folder of its CRDs and webhooks."""
    command = _built("kueue", "kueue", "sigs.k8s.io/kueue/cmd/kueue")
    return command, module_folder(MODULES / "kueue", "sigs.k8s.io/kueue") / "config" / "components"


def ensure_kustomize() -> Path:
    """The command kustomize of its own, for the test of the plain manifests."""
    return _built("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5")


def ensure_lws() -> tuple[Path, Path]:
    """LeaderWorkerSet's controller (five minutes), and the folder of its configuration."""
    return _built("lws", "lws", "sigs.k8s.io/lws/cmd"), module_folder(MODULES / "lws", "sigs.k8s.io/lws") / "config"


def ensure_prometheus() -> Path:
    """The folder with Prometheus and promtool, for the tests of metrics, rules and dashboards."""
    commands = [Command(name, f"github.com/prometheus/prometheus/cmd/{name}") for name in (PROMTOOL, PROMETHEUS)]
    return ensure(commands, MODULES / "prometheus", _PROMETHEUS_FLAGS)


def ensure_registry() -> Path:
    """A registry of images and charts, for the tests that push to one."""
    return _built("registry", "registry", "github.com/distribution/distribution/v3/cmd/registry")


def ensure_s3_server() -> Path:
    """A server that speaks S3 over a folder (a minute on two cores)."""
    return _built("s3", "versitygw", "github.com/versity/versitygw/cmd/versitygw")


def ensure_cosign() -> Path:
    """The command that signs images and charts."""
    return _built("signer", "cosign", "github.com/sigstore/cosign/v3/cmd/cosign")


def volcano_definition() -> Path:
    """The file with the CRD of Volcano's groups, generated from its types as Volcano does it: it ships none as module.

    Two minutes on two cores, where the generator is missing.
    """
    module = MODULES / "volcano"
    generator = _built("volcano", "controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen")
    made = generator.parent / "volcano" / "scheduling.volcano.sh_podgroups.yaml"
    with exclusive(generator.parent / ".lock"):
        if not made.exists():
            types = "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
            command = [str(generator), "crd", f"paths={types}", f"output:crd:dir={made.parent}"]
            environment = go_environment(go_command(module / "go.mod"))
            subprocess.run(command, cwd=module, env=environment, capture_output=True, check=True)
    return made


def _built(folder: str, name: str, package: str) -> Path:
    """The command, built if it is missing."""
    return ensure((Command(name, package),), MODULES / folder, FLAGS) / name
