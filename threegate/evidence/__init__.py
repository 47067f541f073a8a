"""Evidence that leaves the house: witnesses of the trail."""
