"""What tests and benches share: clusters, objects, faults and drawn specifications."""
