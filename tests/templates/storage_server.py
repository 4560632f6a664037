"""A bucket on loopback, as far as an upload from a worker and a checkpoint need one, with faults on order."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "a-token"


class StorageServer:
    """`objects` by name; `faults` are (pattern over "VERB path", status) pairs, each used once; status 0 hangs up.

    What is first written under a name that starts with one of `spoil` is kept spoilt. With a barrier in `written`,
    nobody's write is answered before that many have written.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.faults: list[tuple[str, int]] = []
        self.requests: list[str] = []
        self.spoil: list[str] = []
        self.written: threading.Barrier | None = None
        self.sessions: dict[str, tuple[str, bytearray]] = {}
        self.lock = threading.Lock()
        server = self

        class Answer(_Answer):
            store = server

        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.httpd.daemon_threads = True
        self.thread = threading.Thread(target=self.httpd.serve_forever, args=(0.02,))
        self.thread.start()
        self.address = f"127.0.0.1:{self.httpd.server_port}"

    def environment(self) -> dict[str, str]:
        """What points programs here."""
        return {"STORAGE_EMULATOR_HOST": f"http://{self.address}", "GCE_METADATA_HOST": f"{self.address}/m/1"}

    def close(self) -> None:
        self.httpd.shutdown()
        self.thread.join()
        self.httpd.server_close()

    def fault(self, line: str) -> int | None:
        with self.lock:
            for number, (pattern, status) in enumerate(self.faults):
                if re.search(pattern, line):
                    del self.faults[number]
                    return status
        return None

    def document(self, name: str) -> dict[str, str]:
        data = self.objects[name]
        md5 = base64.b64encode(hashlib.md5(data).digest()).decode()
        return {"kind": "storage#object", "name": name, "bucket": "b", "size": str(len(data)), "md5Hash": md5}


class _Answer(BaseHTTPRequestHandler):
    store: StorageServer
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        line = f"{self.command} {self.path}"
        self.store.requests.append(line)
        status = self.store.fault(line)
        if status == 0:
            self.close_connection = True
            return
        if status is not None:
            self.reply(status, b'{"error": {"message": "told to fail"}}')
            return
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        if url.path.endswith("/token"):
            self.reply(200, json.dumps({"access_token": TOKEN, "expires_in": 3600}).encode())
        elif url.path.startswith("/upload/"):
            self.upload(query, body)
        elif url.path.endswith("/o") and self.command == "GET":
            prefix = query.get("prefix", "")
            names = sorted(name for name in self.store.objects if name.startswith(prefix))
            self.reply(200, json.dumps({"items": [self.store.document(name) for name in names]}).encode())
        else:
            self.one_object(unquote(url.path.rpartition("/o/")[2]), query)

    do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - http.server's names

    def one_object(self, name: str, query: dict[str, str]) -> None:
        if name not in self.store.objects:
            self.reply(404, b'{"error": {"code": 404, "message": "No such object"}}')
        elif self.command == "DELETE":
            del self.store.objects[name]
            self.reply(204, b"")
        elif query.get("alt") == "media":
            self.reply(200, self.store.objects[name])
        else:
            self.reply(200, json.dumps(self.store.document(name)).encode())

    def upload(self, query: dict[str, str], body: bytes) -> None:
        kind = query["uploadType"]
        if kind == "media":
            self.keep(query["name"], body)
        elif kind == "multipart":
            boundary = b"--" + re.search(r"boundary=\"?'?([^\"']+)", self.headers["Content-Type"])[1].encode()
            parts = [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in body.split(boundary)[1:-1]]
            self.keep(json.loads(parts[0])["name"], parts[1])
        elif self.command == "POST":
            session = str(len(self.store.sessions))
            self.store.sessions[session] = (query["name"], bytearray())
            where = f"http://{self.headers['Host']}/upload/storage/v1/b/b/o?uploadType=resumable&upload_id={session}"
            self.reply(200, b"", {"Location": where})
        else:
            self.piece(query["upload_id"], body)

    def piece(self, session: str, body: bytes) -> None:
        name, data = self.store.sessions[session]
        first, total = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", self.headers["Content-Range"]).groups()
        if int(first) <= len(data):
            data += body[len(data) - int(first) :]
        if len(data) == int(total):
            self.keep(name, bytes(data))
        else:
            self.reply(308, b"", {"Range": f"bytes=0-{len(data) - 1}"} if data else {})

    def keep(self, name: str, data: bytes) -> None:
        spoilt = next((start for start in self.store.spoil if name.startswith(start)), None)
        if spoilt is not None:
            self.store.spoil.remove(spoilt)
            data = b"spoilt"
        self.store.objects[name] = data
        if self.store.written is not None:
            self.store.written.wait()
        self.reply(200, json.dumps(self.store.document(name)).encode())

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Says nothing."""
