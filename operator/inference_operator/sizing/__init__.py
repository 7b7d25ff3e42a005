"""How large an engine is. Never names an engine or a version."""
