"""Each published figure is one command here."""
