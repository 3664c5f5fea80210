"""The blocking clients: the same behaviour as `rocketline.aio`, for threads."""
