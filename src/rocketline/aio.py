"""The asyncio clients, under the same names as the blocking ones of `rocketline`."""
