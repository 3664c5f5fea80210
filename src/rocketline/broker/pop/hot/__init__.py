"""The fast twins of the handlers of pops and acknowledgements: what is plain is answered from its bytes.

They give the answers and store the records that `broker/pop/handler.py` and `broker/pop/acks.py` would, and leave to
these whatever is unusual. `hot.pure` reads the requests and writes the bodies.
"""
