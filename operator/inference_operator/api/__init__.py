"""The API: what users write, what they read back, and the words in which both speak."""
