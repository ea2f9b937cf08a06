"""A model hub on this machine: as much of the real one's protocol as fetching a model needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

COMMIT = "d" * 40


@dataclass
class Hub:
    """What the hub holds, and what it was asked for."""

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Content by repository and file name."""
    gated: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)
    """Files whose content was sent, in order."""
    ranges: list[str] = field(default_factory=list)
    """Range headers that came with them."""
    break_after: int | None = None
    """Close the connection after that many bytes of a weight file, once."""
    url: str = ""


@contextmanager
def hub_server() -> Iterator[Hub]:
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self._answer(send=False)

        def do_GET(self) -> None:
            self._answer(send=True)

        def _answer(self, *, send: bool) -> None:
            path = urlsplit(self.path).path
            listing = re.fullmatch(r"/api/models/(.+?)(?:/revision/([^/]+))?", path)
            file = re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", path)
            found = listing or file
            repo, revision = (found[1], found[2]) if found else ("", None)
            if repo not in hub.files:
                return self._refuse(404, "RepoNotFound")
            if revision not in (None, "main", COMMIT):
                return self._refuse(404, "RevisionNotFound")
            if listing:
                names = [{"rfilename": name, "size": len(data)} for name, data in hub.files[repo].items()]
                body = json.dumps({"id": repo, "sha": COMMIT, "siblings": names}).encode()
                return self._send(body, {"Content-Type": "application/json"}, send)
            if repo in hub.gated:
                return self._refuse(403, "GatedRepo")
            assert file is not None
            data = hub.files[repo].get(file[3])
            if data is None:
                return self._refuse(404, "EntryNotFound")
            headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
            if send:
                hub.fetched.append(file[3])
            wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if wanted and send:
                hub.ranges.append(wanted[0])
                start = int(wanted[1])
                headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
                return self._send(data[start:], headers, send, status=206)
            if send and hub.break_after is not None and file[3].endswith(".safetensors"):
                cut, hub.break_after = hub.break_after, None
                self._send(data, headers, send=False)
                self.wfile.write(data[:cut])
                self.close_connection = True
                return None
            return self._send(data, headers, send)

        def _send(self, body: bytes, headers: dict[str, str], send: bool, status: int = 200) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), "Accept-Ranges": "bytes", **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if send:
                self.wfile.write(body)

        def _refuse(self, status: int, code: str) -> None:
            self._send(b"", {"X-Error-Code": code, "X-Error-Message": code}, send=False, status=status)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
