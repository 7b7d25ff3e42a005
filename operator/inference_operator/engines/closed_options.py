"""The options of an engine that refuses all options but those of its table.

1. An option is written with its long name, and a value behind `=`. So each argument can be judged alone, whatever
   abbreviations and pairs of arguments the engine's own parser takes.
2. An option that the operator manages is refused with the field that stands for it, if there is one.
3. A flag takes no value, and any other option needs one. A parser would take the next argument for a missing value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.classified import LIBRARY_SECRETS, LIBRARY_VARIABLES, Class, Classified, classified
from inference_operator.engines.options import OptionClasses
from inference_operator.text_tables import text_of


@dataclass(frozen=True, slots=True)
class ClosedOptions:
    command: str
    others: str
    """What to write instead of an option that is not in the table, in a sentence."""
    by_name: Mapping[str, Classified]
    flags: frozenset[str] = frozenset()

    @classmethod
    def of(cls, package: str, version: str, *, command: str, others: str, flags: Iterable[str] = ()) -> "ClosedOptions":
        options = classified(text_of(package, f"option-classes-{version}.txt"))
        return cls(command, others, {option.name: option for option in options}, frozenset(flags))

    def refusal(self, args: Sequence[str]) -> Refusal | None:
        refusals = (self._refusal(f"spec.engine.args[{index}]", argument) for index, argument in enumerate(args))
        return next((refusal for refusal in refusals if refusal), None)

    def _refusal(self, field: str, argument: str) -> Refusal | None:
        name, equals, _ = argument.partition("=")
        option = self.by_name.get(name)
        if option is None:
            problem = f"`{self.command}` takes no such option here."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, self.others)
        if option.kind is Class.MANAGED:
            return Refusal(Reason.MANAGED_ARGUMENT, field, f"`{name}` is managed by the operator.", option.reason)
        if equals and name in self.flags:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` takes no value.", f"Write `{name}`.")
        if not equals and name not in self.flags:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` has no value.", f"Write `{name}=VALUE`.")
        return None

    def classes(self, managed_variables: Iterable[str], *, own_prefix: str = "") -> OptionClasses:
        """The names for which nobody needs the right to create pods; variables are those of the shared libraries.

        Args:
            managed_variables: names of the variables that the operator refuses to everybody.
            own_prefix: begins names of variables that no other engine reads.
        """
        return OptionClasses(
            safe=self._named(Class.SAFE),
            managed=self._named(Class.MANAGED),
            safe_variables=frozenset(entry.name for entry in LIBRARY_VARIABLES if entry.kind is Class.SAFE),
            managed_variables=frozenset(managed_variables),
            secret_variables=LIBRARY_SECRETS,
            unsafe=self._named(Class.PODS),
            own_prefix=own_prefix,
        )

    def _named(self, kind: Class) -> frozenset[str]:
        return frozenset(name for name, option in self.by_name.items() if option.kind is kind)
