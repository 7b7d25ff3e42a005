"""The options of commands that print what needs no cluster: `infd crd`, `policy`, `key`, `arguments`, `completion`."""

import argparse

from inference_operator.api.engine_kind import EngineKind
from inference_operator.cli.options import SYSTEM_NAMESPACE, add_output
from inference_operator.cli.parser import examples

NAME = "inference-operator"
SHELLS = ("bash", "zsh", "fish")


def add_crd(command: argparse.ArgumentParser) -> None:
    command.description = "Print the CustomResourceDefinition, as YAML."
    command.add_argument(
        "--json-schema", action="store_true", help="print the JSON Schema of a resource instead, for editors"
    )
    command.set_defaults(run="manifests.command:print_crd")


def add_policy(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the ValidatingAdmissionPolicies for people who write InferenceDeployments, those for the operator's own"
        " ServiceAccount, or that of the setting `policy`, with their bindings, as YAML."
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument("--operator", action="store_true", help="print those for the operator's own ServiceAccount")
    words = "print that of the setting `policy`, whose parameters the chart writes into the ConfigMap NAME-policy"
    which.add_argument("--owner", action="store_true", help=words)
    own = command.add_argument_group("with --operator or --owner")
    own.add_argument(
        "--namespace", "-n", default=SYSTEM_NAMESPACE, help=f"namespace of the operator (default: {SYSTEM_NAMESPACE})"
    )
    own.add_argument("--name", default=NAME, help=f"name of the operator's Lease (default: {NAME})")
    own.add_argument("--account", default="", help="name of the operator's ServiceAccount (default: that of the Lease)")
    words = "a ServiceAccount that the operator's settings name for pods; may be repeated"
    own.add_argument("--pod-account", action="append", default=[], metavar="NAME", help=words)
    words = "the operator's setting `prometheus`: the address and the authentication that KEDA may use"
    own.add_argument("--prometheus", default="{}", metavar="JSON", help=words)
    command.set_defaults(run="manifests.command:print_policies")


def add_key(key: argparse.ArgumentParser) -> None:
    key.description = "Make API keys for `router.keys`, and name the users behind metrics."
    commands = key.add_subparsers(required=True, metavar="COMMAND")
    made = commands.add_parser(
        "create",
        help="make a new API key",
        description="Make a new API key. Standard output gets the line for the Secret, or with --secret the whole"
        " Secret as YAML; the key itself is printed to standard error, once. With --output for programs, the key and"
        " the line are in one object.",
    )
    made.epilog = examples(
        "infd key create alice >> keys", "infd key create alice --secret api-keys -n team-a > secret.yaml"
    )
    made.add_argument("user", metavar="USER", help="name of the user, for logs and metrics")
    made.add_argument("--secret", metavar="NAME", help="print a Secret with this name instead of the line alone")
    made.add_argument("--namespace", "-n", metavar="NAME", help="namespace of the Secret")
    add_output(made)
    made.set_defaults(run="manifests.command:create_key")
    marks = commands.add_parser(
        "marks",
        help="print the users behind the marks in metrics",
        description="Read a keys file from standard input, and print the mark of each user in the metrics of routers.",
    )
    marks.epilog = examples("infd key marks < keys")
    add_output(marks)
    marks.set_defaults(run="manifests.command:print_marks")


def add_rules(arguments: argparse.ArgumentParser) -> None:
    arguments.description = (
        "Use it before you write `spec.engine.args` or `spec.engine.env`. Say who may set the arguments and variables"
        " of engines whose names contain a word, what they do, and what to use instead of those that are refused. What"
        " is not listed needs the right to create pods with vLLM, and is refused with other engines."
    )
    arguments.add_argument("word", nargs="?", default="", help="part of a name; default: all")
    kinds = [str(kind) for kind in EngineKind if kind is not EngineKind.AUTO]
    arguments.add_argument("--engine", choices=kinds, default=kinds[0], help=f"kind of the engine; default {kinds[0]}")
    add_output(arguments)
    arguments.epilog = examples("infd arguments max-num", "infd arguments --engine LlamaCpp -o json")
    arguments.set_defaults(run="manifests.command:print_rules")


def add_completion(completion: argparse.ArgumentParser) -> None:
    completion.description = (
        "Print the script by which a shell completes commands, options, and names of resources, namespaces and"
        " contexts, which kubectl looks up. The first two examples are lines of ~/.bashrc and ~/.zshrc. `kubectl infd`"
        " is completed where kubectl itself is: it finds the program `kubectl_complete-infd`."
    )
    completion.epilog = examples(
        'eval "$(infd completion bash)"',
        'eval "$(infd completion zsh)"',
        "infd completion fish > ~/.config/fish/completions/infd.fish",
    )
    completion.add_argument("shell", choices=SHELLS, help="shell that will read it")
    completion.set_defaults(run="completer:print_script")
