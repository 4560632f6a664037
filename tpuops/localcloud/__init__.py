"""The embedded cloud: a separate program that travels in this package.

It serves the part of Google's APIs that tpuops uses, on loopback, with machines that are real sandboxes. It shares
`tpuops.facts` with the product and nothing else; the product meets it on the wire only. Unmodified gcloud and Google
client libraries working against it is its definition of correct.
"""
