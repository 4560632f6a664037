"""The tasks people and schedulers type: parse, call one function, render.

One module a theme. Importing them must stay cheap, since `--list` and shell completion import all of them: no client
library, no pydantic, nothing that opens a connection, at module level. Decisions live below.
"""
