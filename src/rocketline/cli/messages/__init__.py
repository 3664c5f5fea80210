"""Commands for messages: send, consume, tail, message, timer, transaction."""
