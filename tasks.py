"""What `invoke` finds at the top of the repository: the tasks of `tpuops.tasks`, nothing of its own."""

from tpuops.tasks.namespace import namespace

ns = namespace()
