"""The operator's terminal as an application (extra `threegate[tui]`): the same lines, the same acts, the same
rules.

Invariant: foreign words reach the terminal only as the lines that review/screen.py makes, never as markup;
what is signed is the request all of whose lines were on the screen.
"""
