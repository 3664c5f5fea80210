"""Where the hooks of producers were once: kept for those who import them from here."""

from rocketline.client.producer.hooks import SendContext as SendContext
from rocketline.client.producer.hooks import SendHook as SendHook
