"""Who is asking: OAuth tokens, and the metadata server through which a machine learns who and where it is."""
