"""The edge to machines, and the only user of SSH and of processes.

Commands are argv tuples, quoted once, here. Host keys are known before the first connection. No asyncssh or OS error
leaves this room: it is chained under `Unreachable` or `CommandFailed`.
"""
