"""Commands that run servers or look at their files: nameserver, broker, serve, store; and their settings."""
