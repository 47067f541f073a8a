"""Setting up: init, doctor, service units, sandbox images, agents' prompts."""
