"""The asyncio clients as applications see them, by way of `rocketline.aio`: thin shells around the cores.

A shell checks that it is used on its loop and in its process, starts and closes (`shell`, for all of them), and hands
every call on. What is decided is decided in the rooms below. `sync` builds on these; else only `rocketline.aio`,
`admin` and Spark's sink import them.
"""
