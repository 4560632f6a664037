"""The only code that formats for people. Values in, text out; nothing here decides or asks."""
