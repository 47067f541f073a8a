"""What leaves the house: packs that a stranger checks with other programs, and witnesses of the trail."""
