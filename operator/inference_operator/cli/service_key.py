"""The API key for a service, of a variable or of a Secret."""

import base64
import os
import re

from inference_operator.api.resource import Resource
from inference_operator.api.spec import Spec
from inference_operator.cli.options import VARIABLE
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ForbiddenError
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import SECRET, Manifest, Ref
from inference_operator.views.raw import mapping

_USABLE = re.compile(r"[!-~]+")
"""Characters of a header's value, without spaces."""


async def service_key(cluster: KubeCluster, found: Resource, key_from: str | None) -> str:
    """The API key; empty if none is given, and none is needed.

    Args:
        cluster: has the Secret.
        found: the resource.
        key_from: value of the option.

    Raises:
        UsageError: there is no usable key where the option says, or none at all; with the cure.
    """
    name, namespace = found.key.name, found.key.namespace
    key = os.environ.get(VARIABLE, "") if key_from is None else await _of_secret(cluster, namespace, key_from)
    if not key and isinstance(found.spec, Spec) and found.spec.router.keys:
        raise UsageError(f"{name} needs an API key. Set {VARIABLE}, or name a Secret: --key-from SECRET/ENTRY.")
    if key and not _USABLE.fullmatch(key):
        where = VARIABLE if key_from is None else "--key-from"
        raise UsageError(
            f"{where}: this is no API key, because it has spaces or lines. The Secret of `router.keys` has only hashes:"
            " give the key that `infd key create` printed."
        )
    return key


async def _of_secret(cluster: KubeCluster, namespace: str, key_from: str) -> str:
    name, _, entry = key_from.partition("/")
    try:
        secret = await cluster.get(Ref(SECRET, namespace, name))
    except ForbiddenError as error:
        raise UsageError(
            f"--key-from: you may not read it. It needs the right to get the Secret `{name}`. Or set {VARIABLE}."
        ) from error
    if secret is None:
        raise UsageError(f"--key-from: there is no Secret `{name}` in the namespace `{namespace}`.")
    return _value(secret, name, entry)


def _value(secret: Manifest, name: str, entry: str) -> str:
    data = mapping(secret, "data")
    entries = [entry] if entry else sorted(data)
    if len(entries) != 1 or entries[0] not in data:
        has = ", ".join(f"`{one}`" for one in sorted(data)) or "none"
        raise UsageError(f"--key-from: name one entry of the Secret as {name}/ENTRY. It has {has}.")
    try:
        return base64.b64decode(str(data[entries[0]])).decode().strip()
    except ValueError as error:
        raise UsageError(f"--key-from: the entry `{entries[0]}` is no text.") from error
