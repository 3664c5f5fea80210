"""Commands that run servers or look at their files: nameserver, broker, serve, store; and their settings.

Servers are those of `nameserver` and `broker`, `store` is `store.inspection`: here flags become settings, signals end
what runs, findings are printed. `cli.commands` finds them, nobody imports them.
"""
