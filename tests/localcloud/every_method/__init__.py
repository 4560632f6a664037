"""What the clients of Google call, service by service, so that no method of the embedded cloud goes uncalled."""
