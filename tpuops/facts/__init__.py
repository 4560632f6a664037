"""What is known of Google Cloud without asking it: accelerators, places, runtimes, prices, names.

Pure data with sources and dates, and functions that look things up in it. The product and the embedded cloud share this
room and nothing else. Nothing here imports a client, reads a clock or asks anybody; the tables are parsed at their
first use, not at import.
"""
