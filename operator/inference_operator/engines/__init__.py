"""All that differs between engines, behind one protocol."""
