"""Data for outsiders: packs that an auditor checks with other programs, and witnesses of the trail."""
