"""The rights that a resource requires of its writer, and the admission policies that the API server enforces."""
