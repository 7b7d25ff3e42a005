"""Run by `helm test`: waits until the operator has reported the status of the InferenceDeployment of this test.

Usage: test.py ACCOUNT NAMESPACE NAME SECONDS. ACCOUNT is the folder with the token and the CA of a ServiceAccount.
"""

import json
import os
import ssl
import sys
import time
import urllib.request
from pathlib import Path

POLL_SECONDS = 1.0


def main(account: str, namespace: str, name: str, seconds: str) -> str:
    """Wait; returns why the test fails, or nothing."""
    deadline = time.monotonic() + float(seconds)
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    server = f"https://{f'[{host}]' if ':' in host else host}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    path = f"/apis/inference-operator.dev/v1alpha1/namespaces/{namespace}/inferencedeployments"
    token = Path(account, "token").read_text().strip()
    request = urllib.request.Request(  # noqa: S310 - the scheme is above
        f"{server}{path}?fieldSelector=metadata.name%3D{name}", headers={"Authorization": f"Bearer {token}"}
    )
    trusted = ssl.create_default_context(cafile=str(Path(account, "ca.crt")))
    problem = ""
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, context=trusted, timeout=10) as answer:  # noqa: S310 - as above
                found = json.load(answer)["items"]
        except (OSError, ValueError) as error:
            problem = f"the API server does not serve InferenceDeployments to the operator: {error}"
        else:
            if any(one["status"]["observedGeneration"] == one["metadata"]["generation"] for one in found):
                print(f"The operator has reported the status of {namespace}/{name}.")
                return ""
            problem = f"the operator has not reported the status of {namespace}/{name}; see the log of the operator"
        time.sleep(POLL_SECONDS)
    return f"Not within {seconds} s: {problem}."


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) or None)
