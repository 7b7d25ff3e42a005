"""Waits until an engine has answered all its requests; the kubelet runs this in its container before it stops it.

Arguments: PORT STALENESS DRAIN METRIC...: seconds in which requests may still come, seconds that they may take
from then on, and the metrics that count them. It never fails: what is left when it ends is the kubelet's to stop.
"""

import os
import re
import signal
import sys
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

PERIOD_SECONDS, ANSWER_SECONDS = 1.0, 5.0


def at_work(port: int, metrics: list[str]) -> bool:
    """Whether the engine has requests, or does not say; raises ConnectionRefusedError where nothing listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        counts = [float(line.split()[-1]) for line in lines if re.split("[{ ]", line, maxsplit=1)[0] in metrics]
    except ConnectionRefusedError:
        raise
    except (OSError, HTTPException, ValueError):
        return True
    finally:
        connection.close()
    return not counts or any(counts)


def ends_loading() -> bool:
    """End an engine that still loads, if it is one; to be called again until it is gone.

    It forgets the SIGTERM that it gets meanwhile, and would go on to serve until it is killed (vLLM 0.32). What it has
    started can be killed, and then it ends by itself.
    """
    command = Path("/proc/1/cmdline").read_text(encoding="utf-8").split("\0")
    if "serve" not in command or not any(Path(word).name == "vllm" for word in command):
        return False
    for process in Path("/proc").glob("[0-9]*"):
        if process.name not in ("1", str(os.getpid())):
            with suppress(OSError):
                os.kill(int(process.name), signal.SIGKILL)
    os.kill(1, signal.SIGINT)  # which Python hears from its first moment on
    return True


def main(period: float = PERIOD_SECONDS) -> None:
    """Wait."""
    port, staleness, drain = map(int, sys.argv[1:4])
    quiet = time.monotonic() + staleness
    while time.monotonic() < quiet + drain:
        try:
            done = not at_work(port, sys.argv[4:]) and time.monotonic() >= quiet
        except ConnectionRefusedError:
            done = not ends_loading()
        if done:
            break
        time.sleep(period)


if __name__ == "__main__":
    main()
