"""The operator's program in Jobs whose image does not have it: they run the official image of Python and install it.

1. The program lies in an immutable ConfigMap of the Job's namespace. It belongs to the InferenceDeployment, and is
   deleted when no Job needs it.
2. Its SHA-256 stands in the Job, which nobody can edit. An init container copies the program out of the ConfigMap, and
   stops unless the copy has that SHA-256. So a person who may write ConfigMaps gets no code into a Job, which may have
   a token.
3. The init container installs the libraries that the program names by their hashes, from the package index.
4. The Job's own container runs the copy.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from inference_operator.engines.model_access import HubAccess
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.container import environment, process_fields, secret_variables
from inference_operator.objects.names import PROGRAM, record_name
from inference_operator.objects.pod import RESTRICTED_CONTAINER
from inference_operator.settings import Settings

PROGRAM_FILE = "program.tar.xz"
"""Key of the ConfigMap."""
_SOURCE, _INSTALLED = "operator-program-source", "operator-program"
"""Volumes, and folders in the containers that mount them."""
_NAME_DIGITS = 16
_SCRIPT = files(__package__).joinpath("install_program.sh").read_text(encoding="utf-8")


def program_process(settings: Settings, access: HubAccess, *command: str, args: Sequence[str]) -> Manifest:
    program = ["python3", f"/{_INSTALLED}/lib"] if settings.job_program else ["infd"]
    env = [*environment(access.env), *secret_variables(access.keys)]
    return process_fields(command=[*program, *command], args=args, env=env)


def with_program(pod: Manifest, owner: Owner, settings: Settings) -> Manifest:
    """A Job's pod that installs the program first; the same pod where its image has the program."""
    (container,) = pod["containers"]
    if not settings.job_program or container["image"] != settings.operator_image:
        return pod
    source, installed = ({"name": name, "mountPath": f"/{name}"} for name in (_SOURCE, _INSTALLED))
    run = {**container, "volumeMounts": [*container["volumeMounts"], {**installed, "readOnly": True}]}
    install = {
        "name": "install",
        "image": container["image"],
        "imagePullPolicy": container["imagePullPolicy"],
        **_install_process(settings),
        "resources": container["resources"],
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{**source, "readOnly": True}, installed],
    }
    volumes = [
        {"name": _SOURCE, "configMap": {"name": _name(owner, settings.job_program)}},
        {"name": _INSTALLED, "emptyDir": {}},
    ]
    return {**pod, "initContainers": [install], "containers": [run], "volumes": [*pod["volumes"], *volumes]}


def program_objects(pod: Manifest, owner: Owner, settings: Settings) -> dict[Ref, Manifest]:
    if "initContainers" not in pod:
        return {}
    program = settings.job_program
    content = {"binaryData": {PROGRAM_FILE: _encoded(program)}, "immutable": True}
    config_map = child(CONFIG_MAP, _name(owner, program), owner=owner, component=PROGRAM, content=content)
    return {Ref.of(config_map): config_map}


def _install_process(settings: Settings) -> Manifest:
    """The process that installs the program. Its variables are the administrator's: no resource chooses the index."""
    return process_fields(
        command=["sh", "-euc", _SCRIPT, "install"],
        args=[f"/{_SOURCE}/{PROGRAM_FILE}", f"/{_INSTALLED}", _sha256(settings.job_program)],
        env=[{"name": name, "value": value} for name, value in sorted(settings.program_environment.items())],
    )


def _name(owner: Owner, program: bytes) -> str:
    return record_name(owner.key.name, PROGRAM, _sha256(program)[:_NAME_DIGITS])


@lru_cache(maxsize=1)
def _sha256(program: bytes) -> str:
    return hashlib.sha256(program).hexdigest()


@lru_cache(maxsize=1)
def _encoded(program: bytes) -> str:
    return base64.b64encode(program).decode()
