"""The labelled excerpts that the tests read.

`corpus.jsonl` is a copy of the project's shared collection, modelled on public reports (see each row's `source`; fixed
message strings and the order of cause and effect are kept, values are invented). `further.jsonl` and `second.jsonl` to
`sixth.jsonl` are excerpts modelled for this suite on other public threads; their labels were written before the
signatures were run on them, and `first_sight` holds what those of that day said.
"""

import json
from pathlib import Path

HERE = Path(__file__).parent


def rows(name):
    return [json.loads(line) for line in (HERE / name).read_text(encoding="utf-8").splitlines()]


CORPUS = rows("corpus.jsonl")
FURTHER = rows("further.jsonl")
SECOND = rows("second.jsonl") + rows("third.jsonl")
FOURTH = rows("fourth.jsonl")
FIFTH = rows("fifth.jsonl")
SIXTH = rows("sixth.jsonl")
HARMLESS = [line for line in (HERE / "harmless.txt").read_bytes().splitlines() if line]
MESSAGES = [
    line.split("|", 1) for line in (HERE / "messages.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"
]
USER_ERRORS = frozenset(
    {"fix_code_or_model", "fix_config", "fix_credentials", "fix_ssh_keys", "reduce_memory", "grow_host_memory"}
)
