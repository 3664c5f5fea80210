"""The blocking clients as applications see them, by way of `rocketline`: the same behaviour, for threads.

Each has a twin, its asyncio form, on a loop in a thread (`portal` starts and ends that thread). A call that merely goes
over to the loop and waits there for its twin's is declared, not written: `waits` in `shell`. Single sends and pulls
have sockets of their own (`connections`), because a wake-up of the loop costs more than the call. Messages that nobody
waits for go over to the loop many at once (`send_queue`). Above everything else in `client`.
"""
