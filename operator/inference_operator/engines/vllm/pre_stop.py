"""Waits until an engine has answered all its requests; the kubelet runs this in its container before it stops it.

python3 -c TEXT PORT STALENESS DRAIN METRIC...: seconds in which requests may still come, seconds that they may take
from then on, and the metrics that count them. It fails never: all it does is wait.
"""

import sys
import time
from http.client import HTTPConnection, HTTPException

PERIOD_SECONDS, ANSWER_SECONDS = 1.0, 5.0


def at_work(port: int, metrics: list[str]) -> bool:
    """Whether the engine has requests, or does not say; without an engine there are none."""
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        counts = [float(line.split()[-1]) for line in lines if line.partition("{")[0] in metrics]
    except ConnectionRefusedError:
        return False
    except (OSError, HTTPException, ValueError):
        return True
    finally:
        connection.close()
    return not counts or any(counts)


def main() -> None:
    """Wait."""
    port, staleness, drain = map(int, sys.argv[1:4])
    end = time.monotonic() + staleness + drain
    time.sleep(staleness)
    while time.monotonic() < end and at_work(port, sys.argv[4:]):
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main()
