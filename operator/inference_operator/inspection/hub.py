"""A model on the hub or a mirror of it, through the hub's own client: endpoint, token, proxy and cache as engines have.

The client reads its environment when it is imported, and is large: only `infd inspect` imports this module.
"""

import logging
import warnings
from pathlib import Path

import httpx2
from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # documented, and not in `__all__`

from inference_operator.inspection.answers import UnwantedAnswerError, limit_answers
from inference_operator.inspection.files import CONFIG, MOST_FILES, Files, InspectionError, inspect_files
from inference_operator.inspection.folder import inspect_folder
from inference_operator.models.inspected import Cause, Failure, Inspection, unusable
from inference_operator.models.not_understood import NotUnderstood

TIMEOUT_SECONDS = 10.0
"""How long the hub may be silent: as long as its client gives it elsewhere (huggingface_hub 2.4.0, `constants.py`)."""

_TOKEN = "`HF_TOKEN`, in a cluster from a Secret in `spec.engine.env`."  # noqa: S105 - says where one belongs
_WAY_OUT = "Check the way to it and `HF_ENDPOINT`, or serve the model from a claim or an image."


def inspect_hub(repository: str, revision: str | None = None) -> Inspection:
    """What is known of a model of the hub.

    Args:
        repository: `org/name`.
        revision: a branch, tag or commit; None is the default branch.
    """
    _be_quiet()
    limit_answers()
    try:
        if constants.is_offline_mode():
            return _cached(repository, revision)
        return inspect_files(_files(repository, revision))
    except InspectionError as error:
        return error.failure
    except (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError, KeyError, TypeError, UnwantedAnswerError) as error:
        return _failure(repository, revision, error)


def _be_quiet() -> None:
    """Have the client ask only for what is wanted, and say nothing: what fails is said once, in words for users."""
    constants.HF_HUB_DISABLE_XET = True  # small files come in one piece, and through the client that is limited
    constants.HF_HUB_DISABLE_TELEMETRY = True
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="huggingface_hub")


def _cached(repository: str, revision: str | None) -> Inspection:
    """From the cache, without any request, where the environment says that there is no hub."""
    config = try_to_load_from_cache(repository, CONFIG, revision=revision)
    if not isinstance(config, str):
        problem = "`HF_HUB_OFFLINE` is set, and the cache does not hold it."
        cure = "Put the model into the cache at `HF_HOME`, or let it be downloaded."
        return Failure(Cause.UNREACHABLE, NotUnderstood(f"hf://{repository}", problem, cure))
    folder = Path(config).parent
    return inspect_folder(folder, name=repository, source=f"hf://{repository}@{folder.name}", commit=folder.name)


def _files(repository: str, revision: str | None) -> Files:
    told = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT_SECONDS)
    listed, commit = told.siblings or [], str(told.sha)
    if len(listed) > MOST_FILES:
        problem = f"holds more than {MOST_FILES:,} files."
        raise InspectionError(unusable(NotUnderstood(f"hf://{repository}", problem, "Give a repository of one model.")))
    sizes = {str(one.rfilename): one.size for one in listed if isinstance(one.size, int)}

    def local(name: str) -> Path:
        return Path(hf_hub_download(repository, name, revision=commit, etag_timeout=TIMEOUT_SECONDS))

    return Files(repository, f"hf://{repository}@{commit}", sizes, local, commit)


def _failure(repository: str, revision: str | None, error: Exception) -> Failure:
    """What an error of the hub means to a user."""
    match error:
        case GatedRepoError():
            found = Cause.GATED, "the hub gives it only to accounts that have accepted its licence."
            cure = f"Accept it on the hub, and set {_TOKEN}"
        case DisabledRepoError():
            found, cure = (Cause.NOT_FOUND, "the hub has disabled it."), "Use another model."
        case RevisionNotFoundError():
            found = Cause.NOT_FOUND, f"has no revision `{revision or 'main'}`."
            cure = "Check it on the hub."
        case RepositoryNotFoundError():
            found = Cause.NOT_FOUND, "the hub has no such model, or does not show it to this account."
            cure = f"Check `spec.model.source`; for a private model set {_TOKEN}"
        case HfHubHTTPError():
            found, cure = _of_status(error.response.status_code)
        case _:
            found, cure = _of_network(error)
    cause, problem = found
    return Failure(cause, NotUnderstood(f"hf://{repository}", problem, cure))


def _of_status(status: int) -> tuple[tuple[Cause, str], str]:
    match status:
        case 401:
            return (Cause.GATED, "the hub does not accept the token, or asks for one (401)."), f"Set {_TOKEN}"
        case 403:
            problem = "the hub forbids this account to read it (403)."
            return (Cause.GATED, problem), f"Give the account access on the hub, and set {_TOKEN}"
        case 404:
            problem = "what `HF_ENDPOINT` names has no such model (404)."
            return (Cause.NOT_FOUND, problem), "Check `spec.model.source` and `HF_ENDPOINT`."
        case 429:
            problem = "the hub has had too many requests from here (429)."
            return (Cause.UNREACHABLE, problem), f"Wait, or set {_TOKEN}"
        case _:
            return (Cause.UNREACHABLE, f"the hub answers with the error {status}."), _WAY_OUT


def _of_network(error: Exception) -> tuple[tuple[Cause, str], str]:
    match error:
        case UnwantedAnswerError(problem):
            said = problem
        case httpx2.TooManyRedirects():
            said = "the hub sends from one address to the next without end."
        case httpx2.TimeoutException():
            said = f"the hub does not answer within {TIMEOUT_SECONDS:g} s."
        case httpx2.RemoteProtocolError():
            said = "the answer of the hub ends early."
        case httpx2.TransportError() | OfflineModeIsEnabled() | LocalEntryNotFoundError():
            said = "the hub cannot be reached."
        case OSError():
            said = "its answer ends early, or cannot be written to `HF_HOME`."
        case _:
            said = "what answers is no hub."
    return (Cause.UNREACHABLE, said), _WAY_OUT
