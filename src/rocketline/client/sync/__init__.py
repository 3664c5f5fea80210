"""The blocking clients as applications see them, by way of `rocketline`: the same behaviour, for threads.

Each has a twin, its asyncio form, and takes from it all that need not be otherwise (`shell`). A loop in a thread does
what needs one (`portal`); single sends and pulls have sockets of their own (`connections`), because a wake-up of the
loop costs more than the call. Messages that nobody waits for go over to the loop many at once (`send_queue`). Above
everything else in `client`.
"""
