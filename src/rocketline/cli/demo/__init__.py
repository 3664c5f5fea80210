"""`rocketline demo`: servers, messages through them, and a pipeline on Spark, in about a minute.

It shows what the other parts do, and does nothing that they do not. `cli.commands` finds it, nobody imports it.
"""
