"""The Cloud Storage JSON API, v1: buckets and objects with generations and preconditions."""
