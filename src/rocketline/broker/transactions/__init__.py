"""Messages whose producer says later whether they count.

A half message comes in by `sends`, and waits in RMQ_SYS_TRANS_HALF_TOPIC. `handler` takes END_TRANSACTION, puts what is
committed into its real topic and has `op_messages` note which half messages have ended. `checks` says when those that
have not are looked at; `check_round` walks over them and decides whose producer is asked, `questions` asks it.
`half_messages` says what a message looks like on each of these ways, `figures` how many wait. Java:
TransactionalMessageService and its kin.

Who reads a half message as a consumer does, and what a producer decides, belongs elsewhere.
"""
