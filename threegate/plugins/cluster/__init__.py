"""Jobs that are sent to other machines, and their results."""
