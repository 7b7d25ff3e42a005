"""States of adapters, beside a model that is served."""

from inference_operator.models.adapter import AdapterFacts
from tests.status.sizing_states import Settled
from tests.testing.adapters import adapted, content_of, listed, records, report_of, serving

_PATHS = {
    "one": f"/adapter-cache/pvc--files--one/snapshots/{content_of('one')}",
    "two": f"/adapter-cache/models--org--two/snapshots/{content_of('two')}",
}
_ONE = {"one": _PATHS["one"]}
_BOTH = adapted("one", "two", engine={"maxAdapterRank": 16})
_ALONE = adapted("one", engine={"maxAdapterRank": 16})
_ENGINE = "qwen-engine-a"
_SERVING = ("True Serving", "False Settled", "False NotStalled")

ADAPTER_STATES: dict[str, Settled] = {
    "an adapter is served": (
        serving(_ALONE, [*records(_ALONE), listed(_ALONE, _ONE, ["one"])], reports={_ENGINE: report_of(_ONE, _ONE)}),
        [],
        _SERVING,
    ),
    "an adapter is copied beside another one": (
        serving(_BOTH, [*records(_ALONE), listed(_BOTH, _ONE, ["one"])], reports={_ENGINE: report_of(_ONE, _ONE)}),
        [],
        _SERVING,
    ),
    "an adapter is too large for the slots": (
        serving(
            _BOTH,
            [
                *records(_BOTH, {"one": AdapterFacts(8), "two": AdapterFacts(64)}),
                listed(_BOTH, _ONE, ["one"]),
            ],
            reports={_ENGINE: report_of(_ONE, _ONE)},
        ),
        [],
        _SERVING,
    ),
    "an engine cannot load an adapter": (
        serving(
            _BOTH,
            [*records(_BOTH), listed(_BOTH, _PATHS, ["one"])],
            reports={_ENGINE: report_of(_PATHS, _ONE, failed=["two"])},
        ),
        [],
        _SERVING,
    ),
}
