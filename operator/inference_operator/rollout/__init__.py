"""How engines are replaced by those of another specification."""
