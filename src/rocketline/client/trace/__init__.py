"""What clients write down about their messages: records as Apache's, kept until they leave, and read again as a story.

Who sends and who consumes encodes a record (`records`) and puts it into the `TraceBuffer` of its client; a
`TraceDispatcher` has a producer of its own (`producer.trace_producer`) carry what is there, some times a second. It
belongs to no topic of the application's, and nothing waits for it. `timeline` is what became of one message, from the
records of whoever saw it. What a producer or a consumer notes, and when, is told where they are: `producer.traced`,
`push.traced`.
"""
