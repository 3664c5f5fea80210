"""Pipelines to learn from; `rocketline demo` runs one of them. Nothing else depends on them."""
