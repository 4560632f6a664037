"""The story: up, train, run, status, down as short functions over the stages.

Everything below is called from here and nowhere else; nothing here knows which cloud it talks to, parses a log or
formats for people.
"""
