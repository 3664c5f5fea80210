"""Commands for messages: send, consume, tail, message, timer, transaction.

They send and receive by `client.sync`, and ask by `admin`, as any application does. `cli.commands` finds them, nobody
imports them.
"""
