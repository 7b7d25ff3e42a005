"""Which paths routers forward, and what is answered to the others: the values of paths.cfg.j2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inference_operator.router.error_response import INVALID, SHOWN, ErrorResponse
from inference_operator.router.inputs import RouterInputs
from inference_operator.text_tables import blocks

BASE = "/v1"
"""The end of the base URL of an OpenAI client."""

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Ability:
    lacks: str
    """What is said of a model that cannot."""
    needs: str
    """A model that can."""
    paths: tuple[str, ...]


ABILITIES = [Ability(lacks, needs, tuple(paths.split())) for lacks, needs, paths in blocks(__package__, "abilities")]
"""Engines register the routes of what their model can do (vLLM 0.32, `entrypoints/`, `supported_tasks`). Paths that an
older engine may lack, and those of WebSockets, are none of these: their absence says nothing of the model."""

NO_ROUTE, NO_METHOD = '{"detail":"Not Found"}', '{"detail":"Method Not Allowed"}'
"""Bodies of an engine's answers where it has no route, or none for the method (Starlette 1, `routing.py`; FastAPI 0,
`exception_handlers.py`): no client of the OpenAI API reads them."""

_PATH = "var(txn.path),json(utf8s)"
_OTHER_BASE = ErrorResponse(
    404,
    INVALID,
    "unknown_url",
    f"this API has no path `<path>`: use `<right>`. The base URL of a client ends in `{BASE}`, once",
)
_NOT_ALLOWED = ErrorResponse(405, INVALID, "method_not_allowed", "`<path>` does not take this method: use `<methods>`")


def values(inputs: RouterInputs) -> Mapping[str, object]:
    paths, right = inputs.api_paths, "var(txn.right),json(utf8s)"
    return {
        "api": paths,
        "without_base": _without_base(paths),
        "twice_base": [f"{BASE}{path}" for path in paths if path.startswith(f"{BASE}/")],
        "shown": SHOWN.partition(",json")[0],
        "other_base": _OTHER_BASE.log_format(path=_PATH, right=right),
        "unknown": _unknown(paths).log_format(path=_PATH),
        "unable": [
            (served, _unable(ability, inputs).log_format(path=_PATH))
            for ability in ABILITIES
            if (served := [path for path in ability.paths if path in paths])
        ],
        "absent": _of_model(f"the engine of the model `{_first_name(inputs)}` does not serve `<path>`").log_format(
            path=_PATH
        ),
        "not_allowed": _NOT_ALLOWED.log_format(path=_PATH, methods=f"var(txn.allowed),{SHOWN}"),
    }


def _without_base(paths: Sequence[str]) -> list[str]:
    """The paths that clients ask for whose base URL does not end in `BASE`.

    Examples:
        >>> _without_base(["/v1/chat/completions", "/v1/rerank", "/rerank"])
        ['/chat/completions']
    """
    shorter = (path.removeprefix(BASE) for path in paths if path.startswith(f"{BASE}/"))
    return [path for path in shorter if path not in paths]


def _unknown(paths: Sequence[str]) -> ErrorResponse:
    known = CHAT if CHAT in paths else next(iter(paths), "")
    example = f". Ask at `{known}`, for example" if known else ""
    return ErrorResponse(404, INVALID, "unknown_url", f"this API has no path `<path>`{example}")


def _unable(ability: Ability, inputs: RouterInputs) -> ErrorResponse:
    other, does = (EMBEDDINGS, "makes embeddings") if CHAT in ability.paths else (CHAT, "generates text")
    elsewhere = f" If it {does}, ask it at `{other}`." if other in inputs.api_paths else ""
    return _of_model(
        f"the model `{_first_name(inputs)}` {ability.lacks}, so its engine does not serve `<path>`.{elsewhere}"
        f" For `<path>`, serve {ability.needs} with an InferenceDeployment of its own"
    )


def _first_name(inputs: RouterInputs) -> str:
    return next(iter(inputs.model_names), "")  # a gateway has no model of its own


def _of_model(message: str) -> ErrorResponse:
    return ErrorResponse(404, INVALID, "unsupported_by_model", message, param="model")
