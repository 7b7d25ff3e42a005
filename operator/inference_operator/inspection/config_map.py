"""The ConfigMap with the result of a model's inspection, which makes further inspections unnecessary."""

from inference_operator.api.spec import ModelSpec
from inference_operator.inspection.result import INSPECTOR_VERSION, parsed_result, result_text
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.models.entry import Entry
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.names import INSPECTION, model_config_name

MODEL_FILE = "model.json"


def model_config_ref(model: ModelSpec, revision: str | None, *, owner: Owner, version: int = INSPECTOR_VERSION) -> Ref:
    """The ConfigMap for the result of a model's inspection.

    Args:
        model: `spec.model`.
        revision: branch, tag or commit; None is the default branch.
        owner: the InferenceDeployment.
        version: of the inspector.
    """
    pickle = ["pickle"] if model.allow_pickle else []
    source_hash = content_hash([model.source, revision, version, *pickle])
    return Ref(CONFIG_MAP, owner.key.namespace, model_config_name(owner.key.name, source_hash))


def model_config_map(ref: Ref, result: Entry, *, owner: Owner) -> Manifest:
    """The ConfigMap with this result."""
    content = {"data": {MODEL_FILE: result_text(result)}}
    return child(ref.kind, ref.name, owner=owner, component=INSPECTION, content=content)


def stored_model(config: Manifest | None) -> Entry | None:
    """The result in a ConfigMap; None without a ConfigMap or with an invalid one."""
    data = (config or {}).get("data")
    text = data.get(MODEL_FILE) if isinstance(data, dict) else None
    result = parsed_result(text) if isinstance(text, str) else None
    return result if isinstance(result, Entry) else None
