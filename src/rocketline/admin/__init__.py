"""Looking at a cluster and changing it. `rocketline.Admin` blocks, `rocketline.aio.Admin` does not.

A module for each subject has what can be asked of it (`topics`, `groups`, `offsets`, `messages`, `timers`,
`transactions`, `pops`, `clients`, `brokers`, `name_servers`); `aio` puts them together, `sync` is the same for
threads, `views` is what they return. A request leaves by `calls`, to the brokers that `placement` names, side by side.
Messages are read by `reading`, as nobody in particular. What is printed is `cli`'s; what a broker says to
it is in `broker.handlers`. Imported by `aio`, `cli`, `spark` and `pipelines`.
"""
