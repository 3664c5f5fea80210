"""Server and Remote over real sockets, on both loops."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack

import pytest

from rocketline.errors import (
    ClosedError,
    ConnectError,
    ConnectionLostError,
    ListenError,
    RequestTimeoutError,
    ResponseError,
    TransportError,
)
from rocketline.net.channel import LATER, Channel, Outcome
from rocketline.net.config import NetworkConfig
from rocketline.net.proxy_protocol import V2_START
from rocketline.net.remote import Remote
from rocketline.testing.fake_clock import FakeClock
from rocketline.wire import frame
from rocketline.wire.codes import V5_3_1, ResponseCode, SerializeType
from rocketline.wire.command import Command, response
from support.net.servers import ECHO, FAIL, echo, loopback, read_command, serve


async def test_request_is_answered() -> None:
    async with serve() as server, Remote(server.address) as remote:
        answer = await remote.request(Command(ECHO, {"a": "ü"}, b"body"), 5)
    assert (answer.code, answer.ext, answer.body) == (0, {"a": "ü"}, b"body")


async def test_unknown_code_is_answered_3_with_a_remark_that_names_it() -> None:
    """S1."""
    async with serve() as server, Remote(server.address) as remote:
        answer = await remote.request(Command(4711), 5)
    assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "4711" in (answer.remark or "")


async def test_handler_that_fails_is_answered_1_and_the_server_lives_on() -> None:
    """S5: an exception's class and text reach the caller."""
    async with serve() as server, Remote(server.address) as remote:
        answer = await remote.request(Command(FAIL), 5)
        assert (answer.code, answer.remark) == (1, 'KeyError: "a handler\'s own fault"')
        assert (await remote.request(Command(ECHO), 5)).code == 0


async def test_both_header_encodings_are_understood_and_json_is_answered() -> None:
    """S8."""
    async with serve() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for opaque, kind in enumerate(SerializeType):
            writer.write(frame.encode(Command(ECHO, {"k": "v"}, opaque=opaque, serialize_type=kind)))
            answer = await read_command(reader)
            assert (answer.opaque, answer.ext, answer.serialize_type) == (opaque, {"k": "v"}, SerializeType.JSON)
        writer.close()
        await writer.wait_closed()


async def test_many_callers_share_one_connection() -> None:
    async with serve() as server, Remote(server.address) as remote:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(remote.request(Command(ECHO, {"n": str(n)}), 5)) for n in range(200)]
        assert [task.result().ext["n"] for task in asked] == [str(n) for n in range(200)]
        assert len(server.channels) == 1


async def test_body_near_the_frame_limit_passes_both_ways() -> None:
    body = bytes(range(256)) * (60 * 1024)  # 15 MiB
    async with serve() as server, Remote(server.address) as remote:
        answer = await remote.request(Command(ECHO, body=body), 10)
    assert answer.body == body


async def test_both_ends_have_more_to_send_than_fits_and_all_of_it_arrives() -> None:
    """Neither end may stop reading answers because the other does not take its requests."""
    body = bytes(12 * 1024 * 1024)
    async with serve() as server, Remote(server.address) as remote, asyncio.TaskGroup() as group:
        asked = [group.create_task(remote.request(Command(ECHO, body=body), 20)) for _ in range(4)]
    assert all(task.result().body == body for task in asked)


async def test_idle_connection_is_closed_after_120_s_and_a_busy_one_is_not(clock: FakeClock) -> None:
    """S6."""
    async with serve(clock=clock) as server, Remote(server.address) as busy:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await busy.request(Command(ECHO), 5)
        clock.advance(119)
        await busy.request(Command(ECHO), 5)
        server.channels.close_idle()
        assert len(server.channels) == 2
        clock.advance(1.5)
        server.channels.close_idle()
        assert await reader.read() == b""
        assert (await busy.request(Command(ECHO), 5)).code == 0
        writer.close()
        await writer.wait_closed()


async def test_server_asks_a_client_over_the_connection_that_the_client_opened() -> None:
    channels: list[Channel] = []

    def register(channel: Channel, request: Command) -> Outcome:
        channels.append(channel)
        return response(0)

    def answer_server(channel: Channel, request: Command) -> Outcome:
        return response(0, body=b"client says " + request.body)

    async with serve({1: register}) as server, Remote(server.address, dispatch=answer_server) as remote:
        await remote.request(Command(1), 5)
        answer = await channels[0].request(Command(307, body=b"hello"), 5)
    assert answer.body == b"client says hello"


async def test_client_without_handlers_answers_a_server_3() -> None:
    channels: list[Channel] = []

    def register(channel: Channel, request: Command) -> Outcome:
        channels.append(channel)
        return response(0)

    async with serve({1: register}) as server, Remote(server.address) as remote:
        await remote.request(Command(1), 5)
        assert (await channels[0].request(Command(307), 5)).code == 3


async def test_oneway_gets_through_and_nothing_comes_back() -> None:
    """S2."""
    arrived = asyncio.Event()

    def note(channel: Channel, request: Command) -> Outcome:
        arrived.set()
        return response(1, "never sent")

    async with serve({1: note, ECHO: echo}) as server, Remote(server.address) as remote:
        await remote.send_oneway(Command(1), 5)
        await asyncio.wait_for(arrived.wait(), 5)
        assert (await remote.request(Command(ECHO), 5)).code == 0


async def test_server_that_goes_away_moves_the_client_to_a_new_connection() -> None:
    """The request is sent once more, with a new number, on a new connection."""
    seen: list[Channel] = []

    def away_once(channel: Channel, request: Command) -> Outcome:
        seen.append(channel)
        return response(ResponseCode.GO_AWAY) if len(seen) == 1 else response(0)

    async with serve({1: away_once}) as server, Remote(server.address) as remote:
        assert (await remote.request(Command(1), 5)).code == 0
    assert len(set(map(id, seen))) == 2


async def test_server_that_sends_away_twice_is_an_error() -> None:
    async with serve({1: lambda *_: response(ResponseCode.GO_AWAY)}) as server, Remote(server.address) as remote:
        with pytest.raises(ResponseError, match="code 1500"):
            await remote.request(Command(1), 5)


async def test_connection_that_was_sent_away_is_closed_with_its_last_answer() -> None:
    """However often a server sends its clients away, it is not left with their connections."""
    parked: asyncio.Queue[tuple[Channel, Command]] = asyncio.Queue()

    def park(channel: Channel, request: Command) -> Outcome:
        parked.put_nowait((channel, request))
        return LATER

    handlers = {1: park, 2: lambda *_: response(ResponseCode.GO_AWAY)}
    async with serve(handlers) as server, Remote(server.address) as remote:
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(remote.request(Command(1), 5))
            channel, request = await parked.get()
            for _ in range(5):
                with pytest.raises(ResponseError):
                    await remote.request(Command(2), 5)
            channel.reply(request, response(0, "late"))
        assert waiting.result().remark == "late"
        await server.channels.wait_empty(5)
        assert len(server.channels) == 0


async def test_graceful_close_answers_go_away_to_those_who_understand_it() -> None:
    async with serve(network=loopback(goes_away_gracefully=True, shutdown_wait_s=5)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(frame.encode(Command(ECHO)))
        assert (await read_command(reader)).code == 0
        async with asyncio.TaskGroup() as group:
            group.create_task(server.close())
            await asyncio.sleep(0)
            for version, code in ((V5_3_1, 0), (V5_3_1 + 1, ResponseCode.GO_AWAY)):
                writer.write(frame.encode(Command(ECHO, version=version)))
                assert (await read_command(reader)).code == code
            writer.close()
            await writer.wait_closed()


async def test_lost_connection_fails_the_waiting_and_the_next_request_dials_again() -> None:
    def hang_up(channel: Channel, request: Command) -> Outcome:
        channel.abort()
        return None

    async with serve({1: hang_up, ECHO: echo}) as server, Remote(server.address) as remote:
        with pytest.raises(ConnectionLostError):
            await remote.request(Command(1), 5)
        assert (await remote.request(Command(ECHO), 5)).code == 0


async def test_no_answer_is_a_timeout_that_names_the_peer() -> None:
    async with serve({1: lambda *_: LATER}) as server, Remote(server.address) as remote:
        await remote.connect(5)  # which would take part of the short time
        with pytest.raises(RequestTimeoutError, match=server.address):
            await remote.request(Command(1), 0.05)


async def test_nobody_listens_is_a_connect_error_that_names_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        async with Remote(address) as remote:
            with pytest.raises(ConnectError, match=address):
                await remote.request(Command(1), 5)


async def test_closed_remote_says_so() -> None:
    async with serve() as server:
        remote = Remote(server.address)
        await remote.close()
        with pytest.raises(ClosedError, match="closed on this side"):
            await remote.request(Command(ECHO), 5)


async def test_remote_closed_while_it_dials_keeps_no_connection() -> None:
    async with serve() as server:
        remote = Remote(server.address)

        async def ask() -> None:
            with pytest.raises(TransportError):
                await remote.request(Command(ECHO), 5)

        async with asyncio.TaskGroup() as group:
            group.create_task(ask())
            await asyncio.sleep(0)
            await remote.close()
        await server.channels.wait_empty(5)
        assert len(server.channels) == 0


async def test_waiting_for_a_dial_counts_into_each_callers_own_time() -> None:
    """A listener that never accepts, its backlog full: dialling takes as long as it may."""
    with socket.socket() as deaf, ExitStack() as stack:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(deaf.getsockname())
        async with Remote(f"127.0.0.1:{deaf.getsockname()[1]}", connect_timeout_s=60) as remote:
            asked = [remote.request(Command(1), 0.1) for _ in range(50)]
            outcomes = await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 2.5)
    assert {type(outcome) for outcome in outcomes} == {ConnectError}


async def test_host_name_that_cannot_be_one_is_a_connect_error() -> None:
    async with Remote(f"{'a' * 64}.example:9876") as remote:
        with pytest.raises(ConnectError):
            await remote.request(Command(1), 5)


@pytest.mark.parametrize("marks", [{"write_buffer_high_bytes": 1000}, {"write_buffer_low_bytes": 1_000_000}])
async def test_one_water_mark_alone_is_enough(marks: dict[str, int]) -> None:
    network = NetworkConfig(bind_address="127.0.0.1", listen_port=0, **marks)  # type: ignore[arg-type]
    async with serve(network=network) as server, Remote(server.address) as remote:
        assert (await remote.request(Command(ECHO, body=bytes(500_000)), 5)).code == 0


async def test_taken_port_is_a_listen_error_that_names_it() -> None:
    async with serve() as server:
        taken = NetworkConfig(bind_address="127.0.0.1", listen_port=server.port)
        with pytest.raises(ListenError, match=f"127.0.0.1:{server.port}"):
            await serve(network=taken).__aenter__()


async def test_idle_connection_whose_peer_reads_nothing_is_cut_off(clock: FakeClock) -> None:
    answered = asyncio.Event()

    def answer(channel: Channel, request: Command) -> Outcome:
        answered.set()
        return echo(channel, request)

    async with serve({ECHO: answer}, clock=clock) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(frame.encode(Command(ECHO, body=bytes(12 * 1024 * 1024))))
        await writer.drain()
        await asyncio.wait_for(answered.wait(), 5)
        clock.advance(121)
        server.channels.close_idle()
        await asyncio.sleep(0)
        assert len(server.channels) == 1, "its answer is still to go out"
        server.channels.close_idle()
        await server.channels.wait_empty(5)
        assert len(server.channels) == 0
        writer.transport.abort()


async def test_close_ends_connections_whose_peers_do_not_read() -> None:
    async with serve() as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        writer.write(frame.encode(Command(ECHO, body=bytes(8 * 1024 * 1024))))
        await writer.drain()
        assert len(server.channels) == 1
    assert len(server.channels) == 0
    writer.transport.abort()


async def test_on_close_is_called_once_per_connection() -> None:
    closed: list[Channel] = []
    done = asyncio.Event()

    def note(channel: Channel) -> None:
        closed.append(channel)
        done.set()

    async with serve(on_close=note) as server:
        async with Remote(server.address) as remote:
            await remote.request(Command(ECHO), 5)
        await asyncio.wait_for(done.wait(), 5)
    assert len(closed) == 1


async def test_socket_buffers_are_set_where_the_settings_say_so() -> None:
    sizes: list[int] = []

    def note(channel: Channel, request: Command) -> Outcome:
        assert channel._transport is not None
        sock = channel._transport.get_extra_info("socket")
        sizes.extend(sock.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF))
        return response(0)

    network = NetworkConfig(
        bind_address="127.0.0.1", listen_port=0, send_buffer_bytes=20_000, receive_buffer_bytes=30_000
    )
    async with serve({1: note}, network=network) as server, Remote(server.address) as remote:
        await remote.request(Command(1), 5)
    assert sizes in ([20_000, 30_000], [40_000, 60_000])  # Linux doubles what it is told


async def test_proxy_preamble_names_the_client() -> None:
    peers: list[str] = []

    def note(channel: Channel, request: Command) -> Outcome:
        peers.append(channel.peer)
        return response(0)

    async with serve({1: note}) as server:
        for preamble, peer in (
            (b"PROXY TCP4 192.0.2.1 127.0.0.1 56324 9876\r\n", "192.0.2.1:56324"),
            (V2_START + bytes.fromhex("2111000cc00002077f0000011f902694"), "192.0.2.7:8080"),
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            for byte in preamble:  # however it is cut
                writer.write(bytes([byte]))
                await writer.drain()
            writer.write(frame.encode(Command(1)))
            await read_command(reader)
            assert peers[-1] == peer
            writer.close()
            await writer.wait_closed()


class _CancelledRemote(Remote):
    """Its caller is cancelled in the moment in which the connection is there, but not yet the dialler's."""

    caller: asyncio.Task[Channel]

    def channel_opened(self, channel: Channel) -> None:
        super().channel_opened(channel)
        self.caller.cancel()


async def test_connection_is_forgotten_whose_dialler_was_cancelled_when_it_was_made() -> None:
    async with serve() as server, _CancelledRemote(server.address) as remote:
        async with asyncio.TaskGroup() as group:
            remote.caller = group.create_task(remote.connect(5))
        assert remote.caller.cancelled()
        assert remote.is_unused, "uvloop never calls it lost, and raises when it is closed or written to"
