"""Roles: groups of equal engines with one plan and one workload each, as requested and as observed."""
