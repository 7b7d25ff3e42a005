"""`make demo`: starts a cluster, the operator and a real vLLM, and sends requests through the load balancer.

python -m e2e.deploy.demo up [--cluster local|kind] | down
"""

import argparse
import http.client
import json
import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import yaml

from e2e.deploy import published_images, stack
from e2e.deploy.published_images import Published
from e2e.images import ImageError
from e2e.localkube import kind, local
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from e2e.localkube.kind import KindCluster
from e2e.localkube.providers import provider
from e2e.localkube.state import Record, read_record

CLUSTER = "demo"
HUB_SAMPLE, HUB_NAME = stack.SAMPLE.with_name("cpu-hub.yaml"), "smollm2"
"""The resource where the hub can be reached; elsewhere `stack.SAMPLE`."""
SMALL_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""A model of the hub that gives sensible answers on a laptop's CPU: 270 MB."""
ENDPOINT = "HF_ENDPOINT"
HUB, HUB_SECONDS = "https://huggingface.co", 5
ENGINE_PORT = 8000
ANSWER_SECONDS = 120
REQUESTS_EACH, MOST_REQUESTS, PAUSE_SECONDS = 4, 200, 0.1
"""Routers see a new engine with their next DNS lookup, after up to 10 s; 200 requests take 20 s."""
_SERVED = re.compile(r"^vllm:request_success_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status. An error is printed as one message."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.deploy.demo", description="Show the whole of inference-operator."
    )
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
        found = published_images.pulled() if provided_by == kind.PROVIDER else published_images.Published()
        cluster = _cluster(provided_by, found)
        print(cluster.kubectl("get", "nodes", "--output=wide"), end="")
    with _part("2. helm install inference-operator"):
        published_images.install(cluster, found)
        print(cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods"), end="")
    from_hub = _hub_answers()
    sample, name = (HUB_SAMPLE, HUB_NAME) if from_hub else (stack.SAMPLE, stack.SAMPLE_NAME)
    with _part(f"3. kubectl apply -f {sample.relative_to(stack.ROOT)}"):
        text = _with_endpoint(sample.read_text()) if from_hub else sample.read_text()
        print(_indented(text))
        print(cluster.kubectl("apply", "--filename=-", input=text), end="")
        _check_unchanged(cluster, name)
        stack.wait_ready(cluster, name, tell=lambda message: print(f"  {message}", flush=True))
        print(cluster.kubectl("get", "infd"), end="")
    with stack.reached(cluster, name) as address:
        _use(cluster, address, name)
    print(f"\nAll of this took {time.monotonic() - start:.0f} s. Look around:\n{_hints(cluster, name)}")


def _cluster(provided_by: str, found: Published) -> Cluster:
    """The cluster, with all images of the stack."""
    if provided_by == local.PROVIDER:
        return stack.bring_up(CLUSTER)
    cluster = stack.bring_up_kind(CLUSTER, found.built)
    for image in found.pulled:
        published_images.load(cluster, image)
    return cluster


def _check_unchanged(cluster: Cluster, name: str) -> None:
    """Refuse a resource whose engines the demo cannot scale, because somebody has added autoscaling to it."""
    if cluster.kubectl("get", "infd", name, "--output=jsonpath={.spec.autoscaling}"):
        raise ClusterError(
            f"{name} has spec.autoscaling, which the sample has not, so `kubectl scale` has no effect. Remove it:"
            f' eval "$(make -s demo-env)"; kubectl delete infd {name}; then run `make demo` again.'
        )


def _hub_answers() -> bool:
    """Whether this machine reaches the small model on the hub, or on its mirror."""
    url = f"{os.environ.get(ENDPOINT) or HUB}/api/models/{SMALL_MODEL}"
    try:
        with urllib.request.urlopen(url, timeout=HUB_SECONDS):  # noqa: S310 - the user's own mirror
            return True
    except OSError:
        return False


def _with_endpoint(sample: str) -> str:
    """The resource, whose engine asks the same hub as this machine."""
    if not os.environ.get(ENDPOINT):
        return sample
    resource = yaml.safe_load(sample)
    resource["spec"]["engine"].setdefault("env", []).append({"name": ENDPOINT, "value": os.environ[ENDPOINT]})
    return yaml.safe_dump(resource, sort_keys=False)


def _use(cluster: Cluster, address: str, name: str) -> None:
    """Send requests to one engine, then to two."""
    with _part(f"4. Requests through the load balancer, http://{address}"):
        engine = next(iter(stack.pods(cluster, name)))  # routers forward inference paths only
        print(f"  vLLM {json.loads(_asked(cluster, engine, 'version'))['version']} answers:")
        if name != HUB_NAME:
            print("  (The hub is out of reach. The model was made on this machine: its answers are random words.)")
        _complete(address, name)
        _stream(address, name)
    with _part(f"5. kubectl scale infd/{name} --replicas=2"):
        cluster.kubectl("scale", f"infd/{name}", "--replicas=2")
        stack.wait_engines(cluster, name, 2)
        print(cluster.kubectl("get", "infd"), end="")
        _spread(cluster, address, name)


@contextmanager
def _part(title: str) -> Iterator[None]:
    """Print the title of a part of the demo, and its duration at its end."""
    print(f"\n== {title}", flush=True)
    start = time.monotonic()
    yield
    print(f"-- {time.monotonic() - start:.0f} s", flush=True)


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))


def _request(name: str, prompt: str, *, stream: bool) -> str:
    return json.dumps({"model": name, "prompt": prompt, "max_tokens": 16, "temperature": 0, "stream": stream})


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


def _complete(address: str, name: str) -> None:
    with _answer(address, "/v1/completions", _request(name, "hello world", stream=False)) as response:
        answer = json.loads(response.read())
    print(f"  completion  {answer['choices'][0]['text']!r} ({answer['usage']['completion_tokens']} tokens)")


def _stream(address: str, name: str) -> None:
    """Print each token with the time at which it came."""
    start = time.monotonic()
    with _answer(address, "/v1/completions", _request(name, "this is a", stream=True)) as response:
        print("  stream      ", end="")
        for line in response:
            data = line.decode().removeprefix("data: ").strip()
            if data == "[DONE]":
                break
            if data:
                text = json.loads(data)["choices"][0]["text"]
                print(f"{text!r}@{(time.monotonic() - start) * 1000:.0f}ms ", end="", flush=True)
    print()


def _spread(cluster: Cluster, address: str, name: str) -> None:
    """Send requests until every engine has answered some, and ask each engine how many."""
    engines = list(stack.pods(cluster, name))
    before = {pod: _served(cluster, pod) for pod in engines}
    answered = dict.fromkeys(engines, 0.0)
    sent = 0
    while sent < MOST_REQUESTS and min(answered.values()) < REQUESTS_EACH:
        with _answer(address, "/v1/completions", _request(name, f"hello {sent}", stream=False)) as response:
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


def _hints(cluster: Cluster, name: str) -> str:
    request = json.dumps({"model": name, "prompt": "hello", "max_tokens": 16})
    forward = f"kubectl port-forward service/{name} 8080:80 &\n    " if isinstance(cluster, KindCluster) else ""
    address = "127.0.0.1:8080" if isinstance(cluster, KindCluster) else stack.address(cluster, name)
    return f"""
    eval "$(make -s demo-env)"     # kubectl and helm for this cluster
    kubectl get infd,pods
    kubectl describe infd {name}
    {forward}curl http://{address}/v1/completions --json '{request}'

    make demo-down                 # ends it and leaves nothing running
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
