"""The threads of this process, as tests that look for leaks count them."""

from __future__ import annotations

import threading


def running_threads() -> set[threading.Thread]:
    """Those that run; without a test server's flushing ones, which begin with its first flush and end with it."""
    return {thread for thread in threading.enumerate() if not (thread.daemon and thread.name.startswith("flush-"))}
