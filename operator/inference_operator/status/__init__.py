"""What users read: a chain of small rules, one file per condition."""
