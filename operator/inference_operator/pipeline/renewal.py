"""Whether engines that keep an earlier release's image or pod template are renewed now: in the owner's window."""

from datetime import datetime

from inference_operator.settings import Settings


def is_renewed_at(settings: Settings, now: datetime) -> bool:
    """Whether the window is open; never without one.

    Examples:
        >>> from datetime import UTC
        >>> nightly = {"renewal": {"start": "0 2 * * *", "end": "0 5 * * *"}}
        >>> night = datetime(2026, 1, 5, 3, 0, tzinfo=UTC)
        >>> is_renewed_at(Settings(rollouts=nightly), night), is_renewed_at(Settings(), night)
        (True, False)
    """
    window = settings.rollouts.renewal
    return window is not None and window.closes_at(now) is not None


def renewal_due(settings: Settings, now: datetime) -> datetime | None:
    window = settings.rollouts.renewal
    return min(filter(None, window.changes(now)), default=None) if window else None


def renewal_notice(settings: Settings, now: datetime) -> str:
    """A sentence that says when engines that keep something older are renewed; empty without a window, and in it.

    Examples:
        >>> from datetime import UTC
        >>> nightly = {"renewal": {"start": "0 2 * * *", "end": "0 5 * * *"}}
        >>> renewal_notice(Settings(rollouts=nightly), datetime(2026, 1, 5, 12, 0, tzinfo=UTC))
        'The operator renews them from 2026-01-06 02:00 UTC on, in the window of its settings.'
    """
    window = settings.rollouts.renewal
    if window is None or window.closes_at(now) is not None:
        return ""
    start, _ = window.changes(now)
    if start is None:
        return ""
    return f"The operator renews them from {start:%Y-%m-%d %H:%M} UTC on, in the window of its settings."
