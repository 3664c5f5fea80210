"""Certificates for tests, made for each run."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import trustme

from rocketline.net.config import TlsConfig
from rocketline.net.tls import client_context


class Authority:
    """A certificate authority with its files."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._folder = folder
        self.trust = folder / "trust.pem"
        self._authority.cert_pem.write_to_path(self.trust)

    def issue(self, name: str, *identities: str) -> tuple[str, str]:
        """Certificate and key of a new pair, as paths."""
        issued = self._authority.issue_cert(*identities)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return str(certificate), str(key)

    def server(self, **changes: object) -> TlsConfig:
        certificate, key = self.issue("server", "127.0.0.1")
        config = TlsConfig(server_cert_path=certificate, server_key_path=key)
        return replace(config, **changes)  # type: ignore[arg-type]

    def client(self, **changes: object) -> ssl.SSLContext:
        config = TlsConfig(client_trust_cert_path=str(self.trust))
        return client_context(replace(config, **changes))  # type: ignore[arg-type]
