"""`rocketline pipeline`: run, check, verify, replay, report.

The work is done in `pipelines`; here a session is chosen, progress is shown, and a verdict becomes an exit status.
`cli.commands` finds it, and `demo` runs one.
"""
