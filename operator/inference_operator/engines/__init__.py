"""All that differs between engines, behind one base class."""
