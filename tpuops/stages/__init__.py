"""The stages of a life: one verb a file. Each takes values and ports, does its one thing, and looks again."""
