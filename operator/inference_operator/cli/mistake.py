"""What cannot be used on the command line."""

MISTAKE = 2
"""Exit status, as argparse has it; 1 says that something was understood and is refused."""


class MistakeError(Exception):
    """Something on the command line that cannot be used, in words for its user."""
