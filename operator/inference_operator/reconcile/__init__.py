"""From what is wanted to what is done, one key at a time."""
