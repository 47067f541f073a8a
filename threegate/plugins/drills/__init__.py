"""Practice: now and then a draft that must not be approved, once an operator consented (docs/drills.md)."""
