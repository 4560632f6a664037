"""`python -m machine`: boots this machine from the document on the first line of standard input."""

from .confine import confine
from .gate import build

if __name__ == "__main__":
    landlock = confine()
    gate = build()  # its keeper is a copy of this process, which is small as yet
    from .boot import main

    main(landlock, gate)
