"""Apply: the change sets of agents, in the projects of the operator."""
