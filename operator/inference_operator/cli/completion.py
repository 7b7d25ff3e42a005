"""`infd completion`: the script by which a shell completes `infd`."""

import argparse

from argcomplete.shell_integration import shellcode

from inference_operator.engines.registry import EngineRegistry

SHELLS = ("bash", "zsh", "fish")


def add_arguments(completion: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd completion`."""
    completion.description = (
        "Print the script by which a shell completes commands, options, and names of resources, namespaces and"
        ' contexts, which kubectl looks up. Examples: in ~/.bashrc or ~/.zshrc `eval "$(infd completion bash)"` with'
        " your shell's name; for fish `infd completion fish > ~/.config/fish/completions/infd.fish`. `kubectl infd` is"
        " completed where kubectl itself is: it finds the program `kubectl_complete-infd`."
    )
    completion.add_argument("shell", choices=SHELLS, help="shell that will read it")
    completion.set_defaults(run=_run)


def _run(options: argparse.Namespace, _: EngineRegistry) -> int:
    """Print the script."""
    print(shellcode(["infd"], shell=options.shell), end="")
    return 0
