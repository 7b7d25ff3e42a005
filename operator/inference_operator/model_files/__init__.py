"""The program inside Jobs and behind `infd`: it reads, downloads, verifies and removes the files of a model."""
