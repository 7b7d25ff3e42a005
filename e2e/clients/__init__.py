"""Calls of the `openai` packages of Python and JavaScript, from one table."""
