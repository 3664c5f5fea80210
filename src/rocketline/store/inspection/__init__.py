"""Looking at a store that nobody has open: `check` names what is wrong with it, `repair` mends what can be mended."""
