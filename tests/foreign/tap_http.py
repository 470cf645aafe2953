"""A TCP proxy between an HTTP client and the gateway: writes down what the client does, and cuts connections on command."""

import contextlib
import json
import socket
import threading
import time


class Messages:
    """Finds the messages in one direction of an HTTP/1.1 connection, as its bytes come."""

    def __init__(self, on_head, on_end):
        self.on_head, self.on_end = on_head, on_end
        self.buffer, self.head, self.left, self.body = b"", None, 0, b""

    def feed(self, data):
        self.buffer += data
        while self.advance():
            pass

    def advance(self):
        if self.head is None:
            if b"\r\n\r\n" not in self.buffer:
                return False
            raw, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            first, *lines = raw.decode("latin-1").split("\r\n")
            fields = (line.split(":", 1) for line in lines)
            self.head = first, {name.lower(): value.strip() for name, value in fields}
            chunked = "chunked" in self.head[1].get("transfer-encoding", "")
            self.left = None if chunked else int(self.head[1].get("content-length", 0))
            self.body = b""
            self.on_head(*self.head)
        elif self.left is None:
            size, more, rest = self.buffer.partition(b"\r\n")
            length = int(size.split(b";")[0], 16) if more else 0
            if not more or len(rest) < length + 2:
                return False
            self.body, self.buffer = self.body + rest[:length], rest[length + 2 :]
            if length == 0:
                return self.end()
        else:
            taken, self.buffer = self.buffer[: self.left], self.buffer[self.left :]
            self.body, self.left = self.body + taken, self.left - len(taken)
            if self.left:
                return False
            return self.end()
        return True

    def end(self):
        head, self.head = self.head, None
        self.on_end(*head, self.body)
        return True


class Connection:
    """One connection, with what is in flight on it."""

    def __init__(self, tap, number, client):
        self.tap, self.number, self.client = tap, number, client
        self.server = socket.create_connection(tap.target)
        for end in (self.client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.in_flight = []
        self.requests = Messages(lambda *_: None, self.request)
        self.responses = Messages(self.response, lambda *_: self.in_flight and self.in_flight.pop(0))
        self.over = threading.Lock()

    def request(self, first, headers, body):
        method = first.split(" ")[0]
        with contextlib.suppress(ValueError):
            message = json.loads(body)
            method += " " + message.get("method", "response")
            reason = (message.get("params") or {}).get("reason")
            if reason:
                method += f" ({reason})"
        if "last-event-id" in headers:
            method += " with Last-Event-ID"
        self.in_flight.append(method)
        self.tap.note(method, conn=self.number)

    def response(self, first, headers):
        self.tap.note("<- " + first.split(" ", 1)[1], conn=self.number)

    def relay(self, source, sink, messages, gone):
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(65536):
                # Known before the other end can react to it.
                messages.feed(data)
                sink.sendall(data)
        self.end(gone)

    def end(self, how):
        if not self.over.acquire(blocking=False):
            return
        open_ones = ", ".join(name for name in self.in_flight)
        self.tap.note(f"{how}{f' with {open_ones} open' if open_ones else ''}", conn=self.number)
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Tap:
    """The proxy. `with Tap(url) as tap`: clients use `tap.url`; `tap.log` is what they did."""

    def __init__(self, url):
        host, path = url.removeprefix("http://").split("/", 1)
        self.target = (host.split(":")[0], int(host.split(":")[1]))
        self.log, self.connections, self.lock = [], [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/{path}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.connections:
            connection.end("the proxy ended")

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                connection = Connection(self, len(self.connections), client)
                self.connections.append(connection)
                ends = (connection.client, connection.server)
                for source, sink, messages, gone in (
                    (*ends, connection.requests, "closes the connection"),
                    (*reversed(ends), connection.responses, "the gateway closes the connection"),
                ):
                    threading.Thread(
                        target=connection.relay, args=(source, sink, messages, gone), daemon=True
                    ).start()

    def note(self, what, **more):
        with self.lock:
            self.log.append({"at": time.monotonic() * 1000, "what": what, **more})

    def cut(self, what):
        """Ends the connections on which a request with `what` in its name is in flight; how many that were."""
        hit = [c for c in self.connections if any(what in request for request in c.in_flight)]
        hit = [c for c in hit if not c.over.locked()]
        for connection in hit:
            connection.end("the network cuts the connection")
        return len(hit)
