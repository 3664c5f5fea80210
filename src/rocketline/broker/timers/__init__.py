"""Messages for any moment: parked in `rmq_sys_wheel_timer`, delivered when they are due, or called back before.

A message comes in by `storing.put`, which gives it its slot and sends it to the timer topic. `parking` reads that topic
and hands places to `store.timers`; `delivery` takes each slot that is over and puts its messages where they belong
(`timed_messages` says how they look there). `service` does both, some of it in each turn of the loop, and saves how far
they are. `recall` takes RECALL_MESSAGE, `handler` what replicas and administrators ask. Java: TimerMessageStore.

The delay levels are not here but in `retries`: they know one queue for each delay, and need no wheel.
"""
