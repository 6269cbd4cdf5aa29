"""The one route of OpenAI's API that a memory server needs, without a model: python embeddings.py PORT

A text becomes the sum of fixed directions, one for each of its words, so texts that share words are near
each other. The same text gives the same numbers on every machine.
"""

import base64
import hashlib
import json
import math
import random
import re
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def direction(word, size):
    chance = random.Random(hashlib.sha256(word.encode()).digest())
    return [(chance.randrange(size), chance.choice((-1.0, 1.0))) for _ in range(6)]


def embedding(text, size):
    numbers = [0.0] * size
    for word in re.findall(r"\w+", text.lower()) or ["nothing"]:
        for place, weight in direction(word, size):
            numbers[place] += weight
    length = math.sqrt(sum(number * number for number in numbers)) or 1.0
    return [number / length for number in numbers]


class Route(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        texts = asked.get("input", [])
        texts = texts if isinstance(texts, list) else [texts]
        size = asked.get("dimensions") or 1536
        rows = []
        for index, text in enumerate(texts):
            numbers = embedding(str(text), size)
            if asked.get("encoding_format") == "base64":
                numbers = base64.b64encode(struct.pack(f"<{size}f", *numbers)).decode()
            rows.append({"object": "embedding", "index": index, "embedding": numbers})
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        self.answer({"object": "list", "data": rows, "model": asked.get("model"), "usage": usage})

    def do_GET(self):
        self.answer({"object": "list", "data": []})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Route).serve_forever()
