"""Compares pairs of answers with traffic-diff, which ignores values that are UUIDs or times: a line of JSON each, [status, body, status, body] with bodies in base64."""

import base64
import json
import sys

from shadowdiff.config import Config
from shadowdiff.diff import compare, normalize_path

for line in sys.stdin:
    old_status, old, new_status, new = json.loads(line)
    found = compare(old_status, base64.b64decode(old), new_status, base64.b64decode(new), Config(ignore_values=("uuid", "iso_timestamp")))
    print(json.dumps([[normalize_path(d.path), d.kind] for d in found]), flush=True)
