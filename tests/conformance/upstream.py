"""A tiny HTTP API with what the conformance suite's tools return. Prints its port, and ends with its stdin."""

import base64
import http.server
import json
import sys
import threading

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
SILENCE = b"RIFF" + (36).to_bytes(4, "little") + b"WAVEfmt " + (16).to_bytes(4, "little") + bytes(
    [1, 0, 1, 0, 0x40, 0x1F, 0, 0, 0x40, 0x1F, 0, 0, 1, 0, 8, 0]
) + b"data" + (0).to_bytes(4, "little")

# What a GET of each path answers: status, media type, body.
FIXED = {
    "/simple-text": (200, "text/plain", b"This is a simple text response for testing."),
    "/image": (200, "image/png", PIXEL),
    "/audio": (200, "audio/wav", SILENCE),
    "/embedded": (200, "application/octet-stream", b"This is an embedded resource content."),
    "/error": (500, "text/plain", b"This tool intentionally returns an error for testing"),
}
# What the status reads of a job say, one after the other.
STEPS = [0, 50, 100]

lock = threading.Lock()
jobs = []


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in FIXED:
            return self.answer(*FIXED[path])
        if path.startswith("/jobs/"):
            with lock:
                job = jobs[int(path.removeprefix("/jobs/"))]
                step = min(job["reads"], len(STEPS))
                job["reads"] += 1
            # The last percentage is told by a read of its own, and the end by the next one.
            done = step == len(STEPS)
            percent = STEPS[-1] if done else STEPS[step]
            return self.json(200, {"status": "done" if done else "running", "percent": percent, "text": "All done."})
        self.json(404, {"error": "nothing is here"})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        with lock:
            jobs.append({"reads": 0})
            self.json(201, {"id": str(len(jobs) - 1)})

    def do_DELETE(self):
        self.json(200, {})

    def json(self, status, body):
        self.answer(status, "application/json", json.dumps(body).encode())

    def answer(self, status, media_type, body):
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
