"""`infd completion`: the script by which a shell completes `infd`."""

import argparse

from argcomplete.shell_integration import shellcode

from inference_operator.cli.parser import examples
from inference_operator.engines.registry import EngineRegistry

SHELLS = ("bash", "zsh", "fish")


def add_arguments(completion: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd completion`."""
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
    completion.set_defaults(run=_run)


def _run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Print the script."""
    print(shellcode(["infd"], shell=options.shell), end="")
    return 0
