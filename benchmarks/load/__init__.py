"""Clients under load, each a program that lives for many measurements and reads what to do from its standard input:

    send TOPIC HOW CALLERS SECONDS BODY_BYTES      HOW is sync (threads), tasks (asyncio) or async (messages in flight)
    consume TOPIC GROUP BATCH COUNT TIMEOUT_S      from the beginning, BATCH messages a call, until COUNT have come
    pop TOPIC GROUP BATCH COUNT TIMEOUT_S          the same by a push consumer that pops
    simple TOPIC GROUP BATCH COUNT TIMEOUT_S       the same by a simple consumer in 8 threads; ours only

and answers each line with one: {"messages": …, "seconds": …, "failures": …, "problem": …}. Sending counts from the
first call to the last answer, consuming from the first message handed over to the last.
"""
