"""`rocketline pipeline`: run, check, verify, replay, report."""
