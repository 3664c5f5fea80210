"""POP: consumption without assigned queues. The broker hands messages out, each consumer acknowledges its own.

A pop comes in by `handler`; `checks` says whether it is allowed, `reading` takes messages of one queue after the other
and notes each time what it took, by `revive_topic`; `positions` says where the next pop goes on. One that finds nothing
waits in `long_poll`, in the lines of `held_lines`; `news` is for those who still look through many queues. With
`enablePopBufferMerge`, what is young stays in `merge`. `acks` takes what consumers say of their messages. `service`
reads the revive topic, and `revive` puts what nobody acknowledged in time to the retry topic of its group. What was
popped in order is not noted there: `order_infos` knows which of it is open, and `orderly_acks` moves its group on.
`notifications` answers who asks whether there is something. Java: PopMessageProcessor and its kin.

`offset_recovery` finds out after a crash how far groups had popped.

Who is to pop is not decided here but in `handlers.assignment`; until when a checkpoint waits is up to `timers`.
"""
