"""Tools to test against Rocketline and against the real Apache RocketMQ. Shipped, and imported by no other part."""
