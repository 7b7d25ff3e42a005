"""Admission policies: what the API server refuses, and to whom."""
