"""The program that runs inside a machine of the embedded cloud, as the first thing its sandbox starts.

It is the machine's sshd, its guest agent (login keys, start-up and shutdown scripts) and the hand that carries out the
cloud's orders. It talks with the cloud in JSON lines over its own standard input and output, and ends when the cloud
does. It imports nothing of tpuops: this folder alone is bound into the sandbox.
"""
