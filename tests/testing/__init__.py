"""Helpers that tests and benches share: clusters, objects, faults and random specs."""
