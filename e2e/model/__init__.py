"""The model that tests and the demo serve: tiny, random, reproducible, and shipped as an image volume."""
