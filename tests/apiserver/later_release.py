"""The operator of a later release, which renders another haproxy.cfg that closes an attack.

Run it with `python -m tests.apiserver.later_release`.
"""

from inference_operator.app import main
from inference_operator.router import children, security_revision
from inference_operator.router.haproxy import config_files
from inference_operator.router.inputs import RouterInputs

ATTACK = "clients that send nothing hold engines"


def later_files(inputs: RouterInputs) -> dict[str, str]:
    """The files of this release, each with one line more."""
    return {name: f"{text}\n# of a later release\n" for name, text in config_files(inputs).items()}


if __name__ == "__main__":
    children.config_files = later_files  # type: ignore[attr-defined]
    security_revision.CLOSED_ATTACKS = [*security_revision.CLOSED_ATTACKS, ATTACK]
    main()
