"""The edge to Google's APIs, and the only importer of Google's clients.

Clients are called with their own retries off and a time-out set; every answer becomes a value of `resources` or one
class of `errors`. Whether Google or the embedded cloud answers is a matter of the endpoints passed in, which nobody
here looks at twice.
"""
