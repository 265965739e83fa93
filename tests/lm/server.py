"""A small OpenAI-compatible server with a FakeLM inside, which can be told to misbehave.

with serve(FakeLM(can=…)) as server:     server.url, server.requests
    server.faults = [rate_limit(3), broken_json, …]     used up one a request, in order
    server.rule = lambda body: fault or None            asked for every request that no planted fault took
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from typecase.lm.fake import _TOKEN, FakeLM
from typecase.lm.protocol import Answer, Failure, Scores, Vector

Json = dict[str, Any]
Fault = Callable[["_Handler", Json], None]


def status(code: int, message: str = "planted", **headers: str) -> Fault:
    """Answers with a status."""
    return lambda handler, _: handler.send(code, json.dumps({"error": {"message": message}}).encode(), headers)


def body(data: bytes) -> Fault:
    """Answers 200 with these bytes."""
    return lambda handler, _: handler.send(200, data, {})


def truncated(handler: _Handler, _: Json) -> None:
    """Promises more bytes than it sends."""
    handler.send(200, b'{"choices": [', {}, length=5000)
    handler.close_connection = True


def hang_up(handler: _Handler, _: Json) -> None:
    """Closes the connection without a word."""
    handler.close_connection = True
    handler.connection.close()


class Server:
    """What a test sees of the server."""

    def __init__(self, lm: FakeLM) -> None:
        self.lm = lm
        self.faults: list[Fault] = []
        self.rule: Callable[[Json], Fault | None] = lambda body: None
        self.requests: list[Json] = []
        self.keys: Counter[str] = Counter()
        self.release = threading.Event()  # a slow answer waits for it
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()
        self.url = ""

    def slow(self, handler: _Handler, body: Json) -> None:
        """Answers when released."""
        self.release.wait(30)
        handler.answer(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the other side would wait 40 ms to acknowledge the first of two
    disable_nagle_algorithm = True
    state: Server

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        state = self.state
        with state.lock:
            state.requests.append(asked)
            state.keys[self.headers.get("authorization", "")] += 1
            state.busy += 1
            state.most_busy = max(state.busy, state.most_busy)
            fault = state.faults.pop(0) if state.faults else state.rule(asked)
        try:
            (fault or _Handler.answer)(self, asked)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with state.lock:
                state.busy -= 1

    def send(self, code: int, data: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(code)
        for name, value in {"content-length": str(len(data) if length is None else length), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def answer(self, asked: Json) -> None:
        reply = self._reply(asked)
        if isinstance(reply, Failure):
            message = {
                "error": {"message": f"maximum context length exceeded: {reply.message}", "code": "context_length_exceeded"}
            }
            self.send(400, json.dumps(message).encode(), {})
        else:
            self.send(200, json.dumps(reply).encode(), {})

    def _reply(self, asked: Json) -> Json | Failure:
        lm = self.state.lm
        if self.path.endswith("/embeddings"):
            (vector,) = lm.embed([asked["input"]])
            if not isinstance(vector, Vector):
                return vector
            usage = {"prompt_tokens": vector.prompt_tokens}
            return {"data": [{"embedding": [float(v) for v in vector.values]}], "usage": usage}
        if asked.get("echo"):
            return self._echo(lm, asked["prompt"])
        chat = self.path.endswith("/chat/completions")
        prompt = asked["messages"][-1]["content"] if chat else asked["prompt"]
        most = asked.get("top_logprobs" if chat else "logprobs") or 0
        (answer,) = lm.generate(
            [prompt],
            max_tokens=asked.get("max_tokens") or asked["max_completion_tokens"],
            seed=asked["seed"],
            stop=asked.get("stop", []),
            temperature=asked["temperature"],
            top_logprobs=int(most),
        )
        return _choice(answer, chat) if isinstance(answer, Answer) else answer

    @staticmethod
    def _echo(lm: FakeLM, prompt: str) -> Json | Failure:
        (scores,) = lm.score([prompt])
        if not isinstance(scores, Scores):
            return scores
        tokens = _TOKEN.findall(prompt)
        offsets = [sum(len(token) for token in tokens[:k]) for k in range(len(tokens) + 1)]
        found = {
            "tokens": [*tokens, " more"],
            "token_logprobs": [*(float(v) for v in scores.logprobs), -1.0],
            "text_offset": offsets,
        }
        choice = {"text": prompt + " more", "finish_reason": "length", "logprobs": found}
        return {"choices": [choice], "usage": {"prompt_tokens": len(tokens), "completion_tokens": 1}}


def _choice(answer: Answer, chat: bool) -> Json:
    assert answer.logprobs is not None
    values = [float(value) for value in answer.logprobs]
    if chat:
        content = [
            {"token": top[0][0], "logprob": value, "top_logprobs": [{"token": t, "logprob": v} for t, v in top]}
            for value, top in zip(values, answer.top)
        ]
        found: Json = {"content": content}
        spoken: Json = {"message": {"role": "assistant", "content": answer.text}}
    else:
        found = {
            "tokens": [top[0][0] for top in answer.top],
            "token_logprobs": values,
            "top_logprobs": [dict(t) for t in answer.top],
        }
        spoken = {"text": answer.text}
    usage = {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens}
    choice = {**spoken, "index": 0, "finish_reason": answer.finish, "logprobs": found if answer.top else None}
    return {"choices": [choice], "usage": usage}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the usual 5 a burst of connections waits a second for its turn


@contextmanager
def serve(lm: FakeLM) -> Iterator[Server]:
    """A server on a free port of this machine."""
    state = Server(lm)
    handler = type("Handler", (_Handler,), {"state": state})
    http = _Http(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    try:
        yield state
    finally:
        state.release.set()
        http.shutdown()
        http.server_close()
        thread.join()
