"""`make demo`: starts a cluster, the operator and a real vLLM, and sends requests through the load balancer.

python -m e2e.demo up [--cluster local|kind] | down
"""

import argparse
import http.client
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from e2e import stack
from e2e.cluster import kind, local
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import Cluster
from e2e.cluster.kind import KindCluster
from e2e.cluster.providers import provider
from e2e.cluster.state import Record, read_record
from e2e.images import ImageError

CLUSTER = "demo"
NAME = stack.SAMPLE_NAME
ENGINE_PORT = 8000
ANSWER_SECONDS = 120
REQUESTS_EACH, MOST_REQUESTS, PAUSE_SECONDS = 4, 200, 0.1
"""Routers see a new engine with their next DNS lookup, after up to 10 s; 200 requests take 20 s."""
_SERVED = re.compile(r"^vllm:request_success_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status. An error is printed as one message."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="Show the whole of inference-operator.")
    parser.add_argument("command", choices=["up", "down"])
    parser.add_argument("--cluster", choices=[local.PROVIDER, kind.PROVIDER], default=local.PROVIDER)
    try:
        options = parser.parse_args(arguments)
        if options.command == "up":
            up(options.cluster)
        else:
            provider(read_record(CLUSTER) or Record(CLUSTER, local.PROVIDER)).down(purge=False)
            print(f"Cluster {CLUSTER} is gone; the images that were built are kept for the next time.")
    except (ClusterError, ImageError) as error:
        print(f"\nerror: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; `make demo-down` ends what runs", file=sys.stderr)
        return 130
    return 0


def up(provided_by: str = local.PROVIDER) -> None:
    """Run the demo: from the images to two engines, with the output that a user sees."""
    start = time.monotonic()
    with _part("1. Images and a Kubernetes cluster on this machine"):
        cluster = stack.bring_up_kind(CLUSTER) if provided_by == kind.PROVIDER else stack.bring_up(CLUSTER)
        print(cluster.kubectl("get", "nodes", "--output=wide"), end="")
    with _part("2. helm install inference-operator"):
        stack.install_operator(cluster)
        print(cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods"), end="")
    with _part(f"3. kubectl apply -f {stack.SAMPLE.relative_to(stack.ROOT)}"):
        print(_indented(stack.SAMPLE.read_text()))
        print(cluster.kubectl("apply", "--filename", str(stack.SAMPLE)), end="")
        _check_unchanged(cluster)
        stack.wait_ready(cluster, NAME, tell=lambda message: print(f"  {message}", flush=True))
        print(cluster.kubectl("get", "infd"), end="")
    with stack.reached(cluster, NAME) as address:
        _use(cluster, address)
    print(f"\nAll of this took {time.monotonic() - start:.0f} s. Look around:\n{_hints(cluster)}")


def _check_unchanged(cluster: Cluster) -> None:
    """Refuse a resource whose engines the demo cannot scale, because somebody has added autoscaling to it."""
    if cluster.kubectl("get", "infd", NAME, "--output=jsonpath={.spec.autoscaling}"):
        raise ClusterError(
            f"{NAME} has spec.autoscaling, which the sample has not, so `kubectl scale` has no effect. Remove it:"
            f' eval "$(make -s demo-env)"; kubectl delete infd {NAME}; then run `make demo` again.'
        )


def _use(cluster: Cluster, address: str) -> None:
    """Send requests to one engine, then to two."""
    with _part(f"4. Requests through the load balancer, http://{address}"):
        engine = next(iter(stack.pods(cluster, NAME)))  # routers forward inference paths only
        print(f"  vLLM {json.loads(_asked(cluster, engine, 'version'))['version']} answers:")
        print("  (The model was made on this machine for tests: its answers are random words.)")
        _complete(address)
        _stream(address)
    with _part(f"5. kubectl scale infd/{NAME} --replicas=2"):
        cluster.kubectl("scale", f"infd/{NAME}", "--replicas=2")
        stack.wait_engines(cluster, NAME, 2)
        print(cluster.kubectl("get", "infd"), end="")
        _spread(cluster, address)


@contextmanager
def _part(title: str) -> Iterator[None]:
    """Print the title of a part of the demo, and its duration at its end."""
    print(f"\n== {title}", flush=True)
    start = time.monotonic()
    yield
    print(f"-- {time.monotonic() - start:.0f} s", flush=True)


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))


def _request(prompt: str, *, stream: bool) -> str:
    return json.dumps({"model": NAME, "prompt": prompt, "max_tokens": 16, "temperature": 0, "stream": stream})


@contextmanager
def _answer(address: str, path: str, body: str | None = None) -> Iterator[http.client.HTTPResponse]:
    """The response to a request; a status other than 200 raises an error with the response's text."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
    try:
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise ClusterError(f"{method} {path}: {response.status} {response.read().decode(errors='replace')}")
        yield response
    except OSError as error:
        raise ClusterError(f"http://{address}{path} does not answer: {error}") from error
    finally:
        connection.close()


def _asked(cluster: Cluster, engine: str, path: str) -> str:
    """What an engine pod answers at a path, through the API server's proxy: a pod's address may be out of reach."""
    return cluster.kubectl("get", f"--raw=/api/v1/namespaces/default/pods/{engine}:{ENGINE_PORT}/proxy/{path}")


def _complete(address: str) -> None:
    with _answer(address, "/v1/completions", _request("hello world", stream=False)) as response:
        answer = json.loads(response.read())
    print(f"  completion  {answer['choices'][0]['text']!r} ({answer['usage']['completion_tokens']} tokens)")


def _stream(address: str) -> None:
    """Print each token with the time at which it came."""
    start = time.monotonic()
    with _answer(address, "/v1/completions", _request("this is a", stream=True)) as response:
        print("  stream      ", end="")
        for line in response:
            data = line.decode().removeprefix("data: ").strip()
            if data == "[DONE]":
                break
            if data:
                text = json.loads(data)["choices"][0]["text"]
                print(f"{text!r}@{(time.monotonic() - start) * 1000:.0f}ms ", end="", flush=True)
    print()


def _spread(cluster: Cluster, address: str) -> None:
    """Send requests until every engine has answered some, and ask each engine how many."""
    engines = list(stack.pods(cluster, NAME))
    before = {pod: _served(cluster, pod) for pod in engines}
    answered = dict.fromkeys(engines, 0.0)
    sent = 0
    while sent < MOST_REQUESTS and min(answered.values()) < REQUESTS_EACH:
        with _answer(address, "/v1/completions", _request(f"hello {sent}", stream=False)) as response:
            response.read()
        sent += 1
        time.sleep(PAUSE_SECONDS)
        answered = {pod: _served(cluster, pod) - before[pod] for pod in engines}
    print(f"  {sent} requests, answered by:")
    for pod, count in answered.items():
        print(f"    {pod}  {count:.0f}")


def _served(cluster: Cluster, engine: str) -> float:
    """Requests that an engine has answered, by its own count."""
    return sum(float(count) for count in _SERVED.findall(_asked(cluster, engine, "metrics")))


def _hints(cluster: Cluster) -> str:
    request = json.dumps({"model": NAME, "prompt": "hello", "max_tokens": 16})
    forward = f"kubectl port-forward service/{NAME} 8080:80 &\n    " if isinstance(cluster, KindCluster) else ""
    address = "127.0.0.1:8080" if isinstance(cluster, KindCluster) else stack.address(cluster, NAME)
    return f"""
    eval "$(make -s demo-env)"     # kubectl and helm for this cluster
    kubectl get infd,pods
    kubectl describe infd {NAME}
    {forward}curl http://{address}/v1/completions --json '{request}'

    make demo-down                 # ends it and leaves nothing running
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
