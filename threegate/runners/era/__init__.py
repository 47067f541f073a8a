"""ERA: a request's command in its own hardened container."""
