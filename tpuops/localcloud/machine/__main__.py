"""`python -m machine`: boots this machine from the document on the first line of standard input."""

from .boot import main

if __name__ == "__main__":
    main()
