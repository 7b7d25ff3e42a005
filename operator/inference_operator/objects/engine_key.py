"""The Secret with the key that engines ask of their routers.

The operator only creates it, with a random key that it does not keep. It reads no Secret, and changes none. So it knows
neither whether the Secret still exists, nor the key.
"""

from inference_operator.engines.programs import KEY_ENTRY, KEY_FOLDER
from inference_operator.manifest import GROUP, SECRET, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER
from inference_operator.views.pod import ENGINE_KEY_ANNOTATION
from inference_operator.views.raw import annotations

KEY_TYPE = f"{GROUP}/engine-key"
"""The type of the Secret. The operator's account may create no Secret of another type."""
_VOLUME = "engine-key"
_UID_DIGITS = 8


def key_secret_name(owner: Owner) -> str:
    """Name of the Secret. A resource that is deleted and made again has another one, since its uid is another."""
    return f"{owner.key.name}-engine-key-{owner.uid[:_UID_DIGITS]}".rstrip("-")


def key_secret(owner: Owner) -> Manifest:
    """The Secret without its key."""
    return child(SECRET, key_secret_name(owner), owner=owner, component=ROUTER, content={"type": KEY_TYPE})


def key_annotation(secret: str) -> dict[str, str]:
    return {ENGINE_KEY_ANNOTATION: secret} if secret else {}


def asked_key(template: Manifest) -> str:
    """Name of the Secret with the key that pods of this template ask for, or send; empty: none."""
    return str(annotations(template).get(ENGINE_KEY_ANNOTATION, ""))


def key_volume(secret: str) -> list[Manifest]:
    """The volume; none without a Secret. Without the Secret's key no pod starts: none must accept everybody."""
    items = [{"key": KEY_ENTRY, "path": KEY_ENTRY}]
    return [{"name": _VOLUME, "secret": {"secretName": secret, "items": items}}] if secret else []


def key_mount(folder: str = KEY_FOLDER) -> Manifest:
    """The mount of the whole folder, since the kubelet never updates a single file."""
    return {"name": _VOLUME, "mountPath": folder, "readOnly": True}
