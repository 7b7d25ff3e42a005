"""The pure path from what is requested and observed to the objects that are desired."""
