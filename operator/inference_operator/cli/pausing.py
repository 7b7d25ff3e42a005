"""The edits of `infd pause` and `infd resume`: the field `spec.paused`, and who else sets it."""

from dataclasses import dataclass

from inference_operator.cli.managed_fields import FIELD_MANAGER, applied_edit, git_owner
from inference_operator.cli.renewal import is_paused
from inference_operator.manifest import Manifest

FIELD_MANAGER_OF_PAUSE = f"{FIELD_MANAGER}-pause"
PATH = ("spec", "paused")


@dataclass(frozen=True, slots=True)
class InGit:
    """The field is set from Git: an edit in the cluster would be reverted."""

    by: str


@dataclass(frozen=True, slots=True)
class PauseEdit:
    """A server-side apply."""

    body: Manifest


def pause_edit(live: Manifest, *, paused: bool) -> PauseEdit | InGit | None:
    """The edit that pauses or resumes a resource; None if it is so already.

    Git that does not name `spec.paused` leaves it alone. To resume, the field is first given up: it disappears if
    nobody else sets it.

    Args:
        live: the resource.
        paused: whether it should be paused.

    Examples:
        >>> live = {"metadata": {"namespace": "a", "name": "qwen", "uid": "u"}, "spec": {"paused": True}}
        >>> pause_edit(live, paused=True)
        >>> pause_edit(live, paused=False).body["spec"]
        {}
    """
    if is_paused(live) == paused:
        return None
    if by := git_owner(live, PATH):
        return InGit(by)
    return PauseEdit(applied_edit(live, {"paused": True} if paused else {}))


def resume_by_force(live: Manifest) -> PauseEdit | None:
    """The edit that resumes a resource which somebody else has paused; None if it is not paused any more.

    Args:
        live: the resource after the field was given up.
    """
    return PauseEdit(applied_edit(live, {"paused": False})) if is_paused(live) else None
