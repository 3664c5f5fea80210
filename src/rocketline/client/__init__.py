"""The asyncio client: what producers, consumers and admins share, and they themselves. Java: rocketmq-client."""
