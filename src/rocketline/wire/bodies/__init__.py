"""JSON bodies: `decode(KVTable, data)` and `encode(KVTable({"k": "v"}))`. One module per subject has the classes.

`codec` reads and writes all of them, by their type hints (`coding`); `believed_routes` says how much of a route that
came from a stranger is believed. What a body means is known by whoever asks for it.
"""

from rocketline.wire.bodies.codec import decode as decode
from rocketline.wire.bodies.codec import decode_answer as decode_answer
from rocketline.wire.bodies.codec import decode_in_steps as decode_in_steps
from rocketline.wire.bodies.codec import encode as encode
from rocketline.wire.bodies.codec import encode_in_parts as encode_in_parts
from rocketline.wire.bodies.registration import RegisterBrokerBody as RegisterBrokerBody
from rocketline.wire.bodies.registration import compressed_pieces as compressed_pieces
from rocketline.wire.bodies.registration import decode_register_body as decode_register_body
from rocketline.wire.bodies.registration import encode_register_body as encode_register_body
from rocketline.wire.bodies.registration import read_register_body as read_register_body
from rocketline.wire.bodies.routes import encode_route as encode_route
