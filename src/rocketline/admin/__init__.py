"""Looking at a cluster and changing it. `rocketline.Admin` blocks, `rocketline.aio.Admin` does not."""
