"""The asyncio clients: the same names as in `rocketline`, with `async with`, `await` and `async for`."""

from rocketline.admin.client import Admin as Admin
from rocketline.client.options import Credentials as Credentials
from rocketline.client.options import RpcHook as RpcHook
from rocketline.client.options import Tls as Tls
from rocketline.client.runtime import ClientRuntime as ClientRuntime
