"""Commands for administrators: cluster, topic, group.

They say what is wanted and print what comes back; `admin` does it. `cli.commands` finds them, nobody imports them.
"""
