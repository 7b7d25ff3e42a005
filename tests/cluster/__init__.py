"""Tests of the tool that starts local clusters."""
