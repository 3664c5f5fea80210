"""Messages for any moment: which of them are due when. Java: the package store.timer.

A timer message is a record of the topic `rmq_sys_wheel_timer`; here is only where it lies and when it is due. It comes
in by `TimerStore.park`: a unit is appended to `timer_log`, which points to the unit before it in the same slot, and the
slot in the `wheel` points to the last one. It goes out by `TimerStore.chain`, once its slot is due. `checkpoint` keeps
how far both are, `metrics` how many wait by topic, `recovery` brings the files into agreement when a store is opened.

All of it can be derived from the timer topic: what is damaged is dropped and read anew. Reading records and putting
them where they belong is done elsewhere, by `broker.timers`.
"""
