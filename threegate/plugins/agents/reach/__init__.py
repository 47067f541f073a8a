"""The backend reach: a run of an agent may connect to one host from now on."""
