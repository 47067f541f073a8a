"""What a person reads of a request: its parts, their lines, and the text that a signature covers."""
