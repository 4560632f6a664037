"""One YAML file becomes one frozen, checked value, or every reason why not, each with its line.

Nothing here calls a cloud, and nothing here knows what will be made of the value. A field is in the model only where
something below the file acts on it.
"""

from tpuops.environment.load import available, find, load, refused, whereabouts
from tpuops.environment.model import Environment
from tpuops.environment.owner import owner_of
from tpuops.environment.problems import Finding
from tpuops.environment.schema import schema

__all__ = ["Environment", "Finding", "available", "find", "load", "owner_of", "refused", "schema", "whereabouts"]
