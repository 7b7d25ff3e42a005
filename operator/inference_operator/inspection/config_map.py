"""The ConfigMap that keeps what an inspection found, so that a model is inspected once."""

from inference_operator.inspection.result import INSPECTOR_VERSION, parsed_result, result_text
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.models.entry import Entry
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.names import INSPECTION, model_config_name

MODEL_FILE = "model.json"


def model_config_ref(source: str, revision: str | None, *, owner: Owner) -> Ref:
    """Where what is known of a model is kept.

    Args:
        source: as `spec.model.source` has it.
        revision: branch, tag or commit; None is the default branch.
        owner: whose it is.
    """
    asked = content_hash([source, revision, INSPECTOR_VERSION])
    return Ref(CONFIG_MAP, owner.key.namespace, model_config_name(owner.key.name, asked))


def model_config_map(ref: Ref, found: Entry, *, owner: Owner) -> Manifest:
    """The ConfigMap with what was found."""
    content = {"data": {MODEL_FILE: result_text(found)}}
    return child(ref.kind, ref.name, owner=owner, component=INSPECTION, content=content)


def kept_model(config: Manifest | None) -> Entry | None:
    """What a ConfigMap keeps; None where there is none or a hand has broken it."""
    data = (config or {}).get("data")
    text = data.get(MODEL_FILE) if isinstance(data, dict) else None
    found = parsed_result(text) if isinstance(text, str) else None
    return found if isinstance(found, Entry) else None
