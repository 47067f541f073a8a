"""What leaves the house: a pack of evidence that a stranger checks with other programs (docs/evidence.md)."""
