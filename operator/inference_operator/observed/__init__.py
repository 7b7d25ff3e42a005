"""Typed views of raw objects, parsed once; whatever a view cannot read it leaves out."""
