"""The command reader of gate 1: one line of text becomes an argv, or is refused with the rules that say why."""
