"""The names of a gateway: whose each is, and where its requests go.

Rules:

1. A name that two models claim stays at the one that has it; of a new one, at the first by the name of its
   InferenceDeployment. It never moves while the one that has it claims it. The status says who lost a name, but not of
   the name of a repository, which nobody asked for.
2. An alias gets a name that only its own targets claim, or nobody, and keeps it: no model that comes takes it.
3. A target serves the name of its alias. Others are left out, and the status says so.
4. A list has room for so many names. Adapters and names of repositories are left out first, and new ones before those
   that are in use.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from inference_operator.api.model_gateway import AliasSpec, TargetSpec
from inference_operator.gateway.models import Model, models_by_name

MAX_NAMES = 16_384
"""Names that gateways read (`adapters.lua`)."""
MAX_BYTES = 1_000_000
"""Of a list: a ConfigMap has 1 MiB for all its data (Kubernetes 1.36, `MaxSecretSize` in pkg/apis/core/types.go)."""

_FALLBACK = "f"


@dataclass(frozen=True, slots=True)
class Names:
    """What a gateway answers to."""

    values: Mapping[str, str]
    """Where the requests for each name go: a route, `*` and those of an alias, or `-|` and why there is none."""
    refused: Sequence[str]
    """What is left out: cause and cure, one sentence or two for each."""

    @property
    def text(self) -> str:
        """The list that gateways read: a name and its value on each line."""
        return "".join(_line(name, value) for name, value in sorted(self.values.items()))


NO_NAMES = Names({}, ())


def names(models: Mapping[str, Model], aliases: Sequence[AliasSpec], former: Mapping[str, str]) -> Names:
    """The names of a gateway, by models of a name each, aliases as asked for, and the values that are in use."""
    models = {owner: _with_former(model, former) for owner, model in models.items()}
    claims, values = models_by_name(models), dict[str, str]()
    taken: dict[str, list[str]] = {}
    refused: list[str] = []
    for name, claimants in claims.items():
        holder = holder_of(former.get(name, ""))
        owner = holder if holder in claimants else claimants[0]
        model = models[owner]
        values[name] = f"-|{model.reason}|{model.name}" if model.reason else model.route
        lost = [other for other in claimants if other != owner and name != models[other].hub_name]
        taken[name] = [_taken(name, other, owner) for other in lost]
    for alias in aliases:
        targets = [(target, models.get(target.name)) for target in alias.targets]
        own = [(target, model) for target, model in targets if model and model.serves(alias.name)]
        others = [
            claimant for claimant in claims.get(alias.name, ()) if all(target.name != claimant for target, _ in own)
        ]
        refused += _problems(alias, targets)
        keeps = own and is_alias(former.get(alias.name, ""))
        if others and not keeps:
            refused.append(
                f"The alias `{alias.name}` is left out: it is a name of the InferenceDeployment {others[0]}. Rename one"
                " of them."
            )
        elif own:
            taken[alias.name] = []  # nobody but the alias has it
            refused += [_taken(alias.name, other, "an alias") for other in others]
            values[alias.name] = _alias_value(own)
    firsts = {alias.name for alias in aliases} | {model.names[0] for model in models.values()}
    return _fitting(Names(values, [*chain.from_iterable(taken.values()), *refused]), firsts, former)


def listed(text: str) -> Mapping[str, str]:
    """The values of a live list; lines that are none are skipped."""
    pairs = (line.split(" ") for line in text.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}  # noqa: PLR2004 - a name and its value


def is_alias(value: str) -> bool:
    """Whether a value is that of an alias, which may have no target that can answer."""
    return value.startswith("*") or (value.startswith("-") and value.endswith("|"))


def holder_of(value: str) -> str:
    """The InferenceDeployment that has a name; empty for an alias."""
    return "" if is_alias(value) else value.rpartition("|")[2]


def _with_former(model: Model, former: Mapping[str, str]) -> Model:
    """A model whose names are not known has those that it had."""
    if not model.keeps_names:
        return model
    held = [name for name, value in former.items() if holder_of(value) == model.name]
    return replace(model, names=tuple(dict.fromkeys((*model.names, *held))))


def _fitting(every: Names, firsts: Container[str], former: Mapping[str, str]) -> Names:
    values, room = dict[str, str](), MAX_BYTES
    for name in sorted(every.values, key=lambda name: (name not in firsts, name not in former, name)):
        room -= len(_line(name, every.values[name]))
        if room < 0 or len(values) == MAX_NAMES:
            break
        values[name] = every.values[name]
    left = len(every.values) - len(values)
    if not left:
        return every
    text = f"{left} names are left out, of adapters first: a list has room for {MAX_NAMES} names and {MAX_BYTES} bytes."
    return Names(values, [f"{text} Spread the models over several namespaces.", *every.refused])


def _line(name: str, value: str) -> str:
    return f"{name} {value}\n"


def _alias_value(targets: Sequence[tuple[TargetSpec, Model]]) -> str:
    """The targets that can answer; if none can, why the first one cannot."""
    able = [(target, model) for target, model in targets if not model.reason]
    if not able:
        return f"-|{targets[0][1].reason}|"
    weights = (_FALLBACK if target.fallback else 1 if target.weight is None else target.weight for target, _ in able)
    return "*" + ";".join(f"{weight}|{model.route}" for weight, (_, model) in zip(weights, able, strict=True))


def _problems(alias: AliasSpec, found: Sequence[tuple[TargetSpec, Model | None]]) -> Iterator[str]:
    for target, model in found:
        start = f"The target {target.name} of the alias `{alias.name}` is left out:"
        if model is None:
            yield f"{start} the namespace has no such InferenceDeployment."
        elif not model.serves(alias.name):
            yield (
                f"{start} its engines do not serve this name. Set its `spec.model.servedName` to `{alias.name}`, or add"
                " the variable VLLM_SKIP_MODEL_NAME_VALIDATION with the value 1 to `spec.engine.env`."
            )


def _taken(name: str, other: str, owner: str) -> str:
    return (
        f"The name `{name}` of the InferenceDeployment {other} is taken by {owner}. Rename one of them with"
        " `spec.model.servedName`."
    )
