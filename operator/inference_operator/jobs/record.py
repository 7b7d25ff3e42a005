"""The ConfigMap with the result of a task, which makes further Jobs unnecessary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic

from inference_operator.jobs.result import Failure, Result
from inference_operator.manifest import CONFIG_MAP, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import record_name
from inference_operator.views.raw import mapping


@dataclass(frozen=True, slots=True)
class Record(Generic[Result]):
    owner: Owner
    component: str
    content_hash: str
    """Hash of the request, such as model and revision. It has no part that changes no result, such as a token."""
    data: Callable[[Result], Mapping[str, str]]
    read: Callable[[Manifest], Result | None]
    """The result in such data; None if it is invalid, or the result of another question."""

    @property
    def ref(self) -> Ref:
        name = record_name(self.owner.key.name, self.component, self.content_hash)
        return Ref(CONFIG_MAP, self.owner.key.namespace, name)

    def manifest(self, result: Result) -> Manifest:
        ref, content = self.ref, {"data": dict(self.data(result))}
        return child(ref.kind, ref.name, owner=self.owner, component=self.component, content=content)

    def stored(self, live: Mapping[Ref, Manifest]) -> Result | None:
        return self.read(mapping(live.get(self.ref) or {}, "data"))


def result_in(key: str, parse: Callable[[str], Result | Failure | None], data: Manifest) -> Result | None:
    text = data.get(key)
    result = parse(text) if isinstance(text, str) else None
    return None if isinstance(result, Failure) else result
