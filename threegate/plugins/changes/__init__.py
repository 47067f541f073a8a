"""Change sets: what is to change in a project, from the bytes of a work copy to the lines that a person reads.

`make.py` compares two trees and makes `changes.tar`; `change_tar.py` is the one reader of that file; `checks.py`
decides whether a change set may be applied to the current project; `change_screen.py` shows it to a person. Only
`apply/` writes to a project.
"""
