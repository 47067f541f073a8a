"""The screens and lists that a person reads before deciding."""
