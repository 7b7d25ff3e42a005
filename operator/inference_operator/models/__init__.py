"""What is known about a model before anything runs."""
