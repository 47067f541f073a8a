"""The jail: bubblewrap, its system calls and limits, and the proxy to allowed hosts; for agents and tool servers."""
