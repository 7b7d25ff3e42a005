"""Whether engines that keep an earlier release's image or pod template are renewed now: in the owner's window."""

from datetime import datetime

from inference_operator.settings import Settings


def is_renewed_at(settings: Settings, now: datetime) -> bool:
    """Whether the window is open; never without one."""
    window = settings.rollouts.renewal
    return window is not None and window.closes_at(now) is not None


def renewal_due(settings: Settings, now: datetime) -> datetime | None:
    window = settings.rollouts.renewal
    return min(filter(None, window.changes(now)), default=None) if window else None


def renewal_notice(settings: Settings, now: datetime) -> str:
    """A sentence that says when engines that keep something older are renewed; empty without a window, and in it."""
    window = settings.rollouts.renewal
    if window is None or window.closes_at(now) is not None:
        return ""
    start, _ = window.changes(now)
    if start is None:
        return ""
    return f"The operator renews them from {start:%Y-%m-%d %H:%M} UTC on, in the window of its settings."
