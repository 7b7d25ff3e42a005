"""Causes of pods and Jobs that do not run, and the progress of an engine's start. Pure."""
