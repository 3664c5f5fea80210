"""The message store: an Apache-compatible commit log with its queues, key index, checkpoint and metadata files.

Nothing here knows asyncio, sockets or threads. The file system (`filesystem.FileSystem`) and the clock are handed in,
so a test can lose power at any write and turn the time by hand.
"""
