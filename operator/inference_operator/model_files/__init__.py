"""What runs inside Jobs, and behind `infd`: reads, downloads, verifies and removes the files of a model."""
