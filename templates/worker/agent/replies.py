"""What the controller hears: JSON lines on standard output."""

import json
import sys


def say(document):
    """One JSON line, at once."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
