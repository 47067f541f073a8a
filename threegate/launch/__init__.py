"""From an approved file to its result: judge, claim, run, record."""
