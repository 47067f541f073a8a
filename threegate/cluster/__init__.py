"""Jobs that are sent to other machines, and what comes back from them."""
