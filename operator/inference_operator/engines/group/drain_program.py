"""Waits until the group of this pod has answered all its requests; the kubelet runs this before it stops a member.

Arguments: PORT SECONDS: the member's HTTP port, and how long it may take. It asks its own member, which asks the
leader. Several members wait for the same drain. It never fails: what is left when it ends is the kubelet's to stop.
"""

import json
import sys
import time
from http.client import HTTPConnection, HTTPException

PERIOD_SECONDS, ANSWER_SECONDS = 1.0, 5.0


def drained(port: int) -> bool:
    """Whether there is nothing to wait for; also if the member is not there."""
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/drain")
        return bool(json.loads(connection.getresponse().read())["drained"])
    except TimeoutError:
        return False
    except (OSError, HTTPException, ValueError, KeyError):
        return True
    finally:
        connection.close()


def main(period: float = PERIOD_SECONDS) -> None:
    """Wait."""
    port, seconds = map(int, sys.argv[1:3])
    end = time.monotonic() + seconds
    while not drained(port) and time.monotonic() < end:
        time.sleep(period)


if __name__ == "__main__":
    main()
