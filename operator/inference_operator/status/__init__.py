"""The status that users read: the rules of each condition are one chain in a file of their own."""
