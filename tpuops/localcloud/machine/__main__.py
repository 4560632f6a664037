"""`python -m machine`: boots this machine from the document on the first line of standard input."""

from .confine import confine
from .gate import build

if __name__ == "__main__":
    landlock = confine()
    gate = build()  # this process, which is small as yet, becomes its keeper, and a copy of it goes on
    from .boot import main

    main(landlock, gate)
