"""The Cloud TPU API, v2: nodes, operations and what a zone offers."""
