"""The embedded cloud's core: what the services answer and what becomes of resources, as pure synchronous code.

It takes a request and the time, and gives a reply and events; it opens no file and no socket, reads no clock, and draws
its random numbers from one seed. So the same seed and the same requests end equally over the wire and in virtual time.
"""
