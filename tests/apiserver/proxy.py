"""A TCP proxy between a process and the API server that tests can cut."""

import contextlib
import selectors
import socket
import threading
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import yaml

CHUNK = 65536


class Proxy:
    """Hands bytes on, both ways; TLS goes through it untouched.

    Args:
        kubeconfig: of whom the proxy stands in front.
        copy: where the same goes with the proxy's address.
    """

    def __init__(self, kubeconfig: Path, copy: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._target = urlsplit(cluster["server"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        cluster["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        cluster["tls-server-name"] = self._target.hostname
        copy.write_text(yaml.safe_dump(config))
        self.kubeconfig = copy
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._is_cut = False
        self._ended = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._thread.join()

    def cut(self) -> None:
        """Break all connections, and each new one at once."""
        self._is_cut = True

    def mend(self) -> None:
        """Hand bytes on again."""
        self._is_cut = False

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._ended:
                for key, _ in selector.select(timeout=0.05):
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    if source is self._listener:
                        self._accept(selector)
                    elif source in self._pairs:
                        self._hand_on(selector, source)
                if self._is_cut or self._ended:
                    for source in list(self._pairs):
                        self._close(selector, source)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        client, _ = self._listener.accept()
        if self._is_cut:
            client.close()
            return
        server = socket.create_connection((self._target.hostname or "", self._target.port or 443))
        self._pairs |= {client: server, server: client}
        for one in (client, server):
            selector.register(one, selectors.EVENT_READ)

    def _hand_on(self, selector: selectors.BaseSelector, source: socket.socket) -> None:
        try:
            data = source.recv(CHUNK)
            self._pairs[source].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._close(selector, source)

    def _close(self, selector: selectors.BaseSelector, source: socket.socket) -> None:
        for one in (source, self._pairs.pop(source, None)):
            if one is not None:
                self._pairs.pop(one, None)
                with contextlib.suppress(KeyError, ValueError):
                    selector.unregister(one)
                one.close()
