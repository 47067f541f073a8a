"""The jail: bubblewrap, its system calls and limits, and the one way out to hosts; for agents and for servers of tools."""
