"""What `invoke` finds at the top of the repository: the tasks of `tpuops.tasks`, nothing of its own."""

import sys

from tpuops.tasks.completing import complete
from tpuops.tasks.namespace import namespace

complete(sys.argv[1:])
ns = namespace()
