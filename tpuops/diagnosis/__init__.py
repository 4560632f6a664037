"""From logs and states to what happened and what to do: pure functions over data, no calls, no clock, no files written."""
