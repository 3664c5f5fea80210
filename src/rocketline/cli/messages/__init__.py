"""Commands for single messages: send, consume, tail, message."""
