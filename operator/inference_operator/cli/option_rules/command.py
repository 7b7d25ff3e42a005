"""`infd arguments`: who may set the arguments and variables of an engine."""

import argparse

from inference_operator.cli.output import print_found, table
from inference_operator.cli.parser import EXIT_NOT_FOUND, UsageError
from inference_operator.engines.registry import EngineRegistry


def run(options: argparse.Namespace, engines: EngineRegistry) -> int:
    word = options.word.lower().replace("_", "-")
    rules = [rule for rule in engines[options.engine].option_rules if word in rule.name.lower().replace("_", "-")]
    if not rules:
        other = " It needs the right to create pods." if options.engine == engines.default else " It is refused."
        raise UsageError(
            f"No argument or variable of {options.engine} is listed as `{options.word}`.{other}", EXIT_NOT_FOUND
        )
    rows = [(rule.name, rule.who, rule.note.replace("`", "")) for rule in rules]
    lines = table([("NAME", "WHO MAY SET IT", "EFFECT, OR WHAT TO USE INSTEAD"), *rows])
    print_found(rules, options.output, lines)
    return 0
