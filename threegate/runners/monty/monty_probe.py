"""Monty's probe: our short code, which tests every restriction from inside.

Invariant: what is reported as held was tested inside, in a worker started in exactly the same way as a request's.
"""

from __future__ import annotations

from threegate.request.action import Script
from threegate.request.job import Job, JobLimits

MONTY_PROBE = """
import json
found = []
def wall(name, attempt):
    try:
        seen = attempt()
        found.append([name, False, 'worked'])
    except Exception as error:
        found.append([name, True, type(error).__name__])
def reads():
    return open('/etc/passwd').read()
def leaves():
    return open('/in/../../etc/passwd').read()
def writes():
    return open('/in/x', 'w').write('x')
def environment():
    import os
    return os.environ
def sockets():
    import socket
    return socket
def processes():
    import subprocess
    return subprocess
def system():
    import os
    return os.system('true')
def fills():
    return open('/out/x', 'w').write('x' * 5000000)
wall('no file of the host', reads)
wall('no way out of /in', leaves)
wall('inputs are read-only', writes)
wall('no environment', environment)
wall('no sockets', sockets)
wall('no processes', processes)
wall('no shell', system)
wall('/out is limited in bytes', fills)
found
"""


def monty_probe_job() -> Job:
    """Monty's probe; its value is the list of walls."""
    return Job(
        backend="monty",
        action=Script(MONTY_PROBE),
        workdir="/in",
        inputs=(),
        outputs=(),
        limits=JobLimits("1", 64, 10, out_bytes=4 << 20, out_files=16),
        network=(),
        environment={},
    )
