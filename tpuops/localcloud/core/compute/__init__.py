"""The Compute Engine API, v1: instances, their operations, and the read-only world around them."""
