"""`python -m rocketline`: the same as the command `rocketline`."""

from rocketline.cli import main

main()
