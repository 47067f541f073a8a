"""The programs of the Monty lanes. Each is a constant: what differs between drafts is in pinned files.

Invariant: a program reads /in, writes /out, prints what CORE may see, and ends in a small JSON value that
becomes /out/result.json. No text of a proposal ever becomes code.
"""

from __future__ import annotations

from typing import Final

_START = """\
import hashlib
import json
from pathlib import Path

given = json.loads(Path('/in/args.json').read_text())['given']
"""

READ: Final = (
    _START
    + """\
if given['missing']:
    print('there is no such file')
    result = {'path': given['path'], 'missing': True}
else:
    data = Path('/in/current').read_bytes()
    part = data[: given['maxBytes']]
    Path('/out/content').write_bytes(part)
    try:
        print(part.decode('utf-8'))
    except UnicodeDecodeError:
        print('not text, or cut inside of a character: see /out/content')
    result = {
        'path': given['path'],
        'size': len(data),
        'sha256': hashlib.sha256(data).hexdigest(),
        'truncated': len(part) < len(data),
    }
result
"""
)

LIST: Final = (
    _START
    + """\
listing = json.loads(Path('/in/manifest.json').read_text())
Path('/out/listing.json').write_text(json.dumps(listing, indent=1))
for entry in listing['entries']:
    print(entry['kind'], entry['size'], entry['path'])
{'path': given['path'], 'entries': len(listing['entries']), 'more': listing['more']}
"""
)

DIFF: Final = (
    _START
    + """\
patch = Path('/in/diff.patch').read_bytes()
Path('/out/diff.patch').write_bytes(patch)
print(patch.decode('utf-8'))
{'path': given['path'], 'before_sha256': given['before'], 'after_sha256': given['after']}
"""
)

SEARCH: Final = (
    _START
    + """\
words = given['query'].lower().split()
found = []
withheld = 0
for line in Path('/in/memory.jsonl').read_text().split('\\n'):
    if not line:
        continue
    note = json.loads(line)
    if given['scope'] is not None and note.get('scope') != given['scope']:
        continue
    text = note['content'].lower()
    count = 0
    for word in words:
        if word in text:
            count = count + 1
    if count == len(words):
        if note.get('sensitive'):
            withheld = withheld + 1
        else:
            found.append(note)
found = found[: given['limit']]
Path('/out/notes.json').write_text(json.dumps(found, indent=1))
for note in found:
    print(note['content'])
{'notes': len(found), 'withheld': withheld}
"""
)

NOTE: Final = (
    _START
    + """\
Path('/out/note.json').write_text(json.dumps(given['note'], indent=1))
print('a note for: threegate project note approve ID')
{'note': True}
"""
)

ISSUE: Final = (
    _START
    + """\
Path('/out/issue.md').write_bytes(Path('/in/issue.md').read_bytes())
print(Path('/in/issue.md').read_text())
{'repo': given['repo']}
"""
)

RECORD: Final = (
    _START
    + """\
Path('/out/record.json').write_text(json.dumps(given['record'], indent=1))
print('nothing was done;', given['record']['would'])
{'done': False, 'tool': given['record']['tool']}
"""
)
