"""Where approval, AANA and contracts meet; the only place that makes a Clearance."""
