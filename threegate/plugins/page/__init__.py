"""The operator's page: what is waiting, running and finished, viewable only on this machine; and the page that takes
passkeys.

Invariant: the first has GET and HEAD only; nothing there approves, rejects, cancels or writes a request, its folders or
the trail.
"""
