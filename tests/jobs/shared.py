"""What Jobs of a resource read, for tests of Jobs."""

from inference_operator.api.effective_spec import effective_spec
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.engines.registry import ENGINES, VLLM
from inference_operator.manifest import Manifest, Owner
from inference_operator.models.source import model_source
from inference_operator.roles.context import SharedContext
from inference_operator.settings import Settings


def shared_context(raw: Manifest, owner: Owner, settings: Settings) -> SharedContext:
    """That of a valid resource."""
    asked = resource(raw).spec
    assert isinstance(asked, Spec), asked
    source = model_source(asked.model.source)
    assert not isinstance(source, Refusal), source
    effective = effective_spec(asked, settings.engine_defaults, settings.router_defaults)
    access = ENGINES[VLLM].access(asked.engine, asked.model)
    return SharedContext(effective=effective, source=source, access=access, owner=owner, settings=settings)
