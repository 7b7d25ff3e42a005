"""`infd completion`: the script by which a shell completes `infd`."""

import argparse

from inference_operator.cli.parser import examples

SHELLS = ("bash", "zsh", "fish")


def add_arguments(completion: argparse.ArgumentParser) -> None:
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
