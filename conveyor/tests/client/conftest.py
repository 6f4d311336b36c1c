"""Real processes for the client's tests: Conveyor itself, and the gateways it sends tasks to."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import aws
import httpx
import pytest
from zenrows.batch import Rate, ZenRowsBatchClient
from zenrows.batch._resources import JobRef

KEYS = (
    "client-test-key-of-alice-0001",
    "client-test-key-of-bob-000002",
    "client-test-key-of-carol-00003",
    "client-test-key-of-dave-000004",
)
# Long enough for debug builds on a machine whose cores are all busy: no test is about how long anything takes.
DEADLINE_S = 240.0
CALL_DEADLINE_S = 120.0
START_DEADLINE_S = STOP_DEADLINE_S = 180.0
# For the client's own waiters, which look less and less often.
WAIT = {"poll_interval": 0.1, "timeout": DEADLINE_S}
# Of programs that are started.
VARIABLES = {name: value for name, value in os.environ.items() if not name.startswith("CONVEYOR_")}
# For what the client does not know. A connection is not used twice: a server may close it at any moment.
http = httpx.Client(timeout=CALL_DEADLINE_S, limits=httpx.Limits(max_keepalive_connections=0))
T = TypeVar("T")
LISTENING = re.compile(r"^listening on (http://127\.0\.0\.1:\d+)$")


def sized(normal: int, full: int) -> int:
    """The full size in `cargo xtask soak`; otherwise one that keeps what the test is about."""
    return full if os.environ.get("CONVEYOR_SOAK") else normal


# More tasks than this are staged and ingested (202), in several chunks.
INLINE_TASKS_MAX = sized(300, 9_999)
SHORT_LISTS = ("--inline-tasks-max", str(INLINE_TASKS_MAX), "--chunk-rows", str(sized(100, 5_000)))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "last: looks at something that happens while the other tests run")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("last") is not None)
    for item in items:
        # Two processes of pytest, and still one of each server: what shares a server is in one group.
        shares = {"demo", "scripted", "machines", "recorder"} & set(item.fixturenames)
        item.add_marker(pytest.mark.xdist_group("shared servers" if shares else "servers of their own"))


def eventually(what: str, check: Callable[[], T], deadline_s: float = DEADLINE_S) -> T:
    """Waits until `check` gives something true, and returns it; fails when the deadline has passed."""
    end = time.monotonic() + deadline_s
    while not (found := check()):
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.05)
    return found


class Process:
    """A program that says where it listens."""

    def __init__(self, variable: str, args: list[str], folder: Path, variables: dict[str, str] | None = None):
        # Not skipped without a binary: a test that did not run has not passed.
        binary = os.environ.get(variable)
        assert binary, f"{variable} must name the binary; `cargo xtask test --only client` sets it"
        environment = VARIABLES | (variables or {})
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "stderr.log"
        with self.log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [binary, *args], stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment
            )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.url = self._address()

    def _read(self) -> None:
        # To the end, or a full pipe would stop the program.
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def _address(self) -> str:
        end = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                match = LISTENING.match(self._lines.get(timeout=0.1))
            except queue.Empty:
                continue
            if match:
                return match[1]
        self._process.kill()
        pytest.fail(f"{self._process.args[0]} does not listen:\n{self.log.read_text()}")

    def processes(self, role: str) -> list[int]:
        """Ids of the processes of one role, where every role has processes of its own."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it ended meanwhile
            if parent == self._process.pid and words[1:2] == [role.encode()]:
                found.append(int(folder.name))
        return found

    def stop(self, codes: tuple[int, ...] = (0,)) -> None:
        """Asks it to end, as a service manager would."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            pytest.fail(f"SIGTERM did not end it:\n{self.log.read_text()}")
        assert code in codes, f"ended with {code}:\n{self.log.read_text()}"


class Conveyor(Process):
    def __init__(
        self,
        folder: Path,
        gateway_url: str,
        *args: str,
        http_webhooks: bool = True,
        variables: dict[str, str] | None = None,
    ):
        keys = [word for key in KEYS for word in ("--api-key", key)]
        data = ["--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0"]
        # Receivers of webhooks are on loopback, and speak plain HTTP.
        own = ["--gateway-url", gateway_url, *(["--allow-http-webhooks"] if http_webhooks else [])]
        super().__init__("CONVEYOR_BIN", ["dev", *data, *own, *keys, *args], folder, variables)
        eventually("ready", lambda: http.get(f"{self.url}/readyz").status_code == 200)

    def client(self, key: str = KEYS[0], **options: object) -> ZenRowsBatchClient:
        return ZenRowsBatchClient(base_url=f"{self.url}/v1", api_key=key, timeout=CALL_DEADLINE_S, **options)


@pytest.fixture(scope="session", autouse=True)
def no_certificates() -> Iterator[None]:
    """The client makes an HTTP client for every body that it downloads, and each of them would read all root certificates
    first, which takes 40 ms. All traffic is HTTP on loopback, so a folder without certificates does as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(Path(__file__).parent))
        yield


def program(name: str) -> Path:
    """A program that was built beside the one under test: what serves may be several processes."""
    return Path(os.environ["CONVEYOR_BIN"]).with_name(name)


@pytest.fixture(scope="session")
def demo_with_schedule(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Conveyor, JobRef]]:
    """Conveyor with the built-in gateway, and a job that it runs every minute. A minute is the shortest interval there is:
    it passes while the other tests run."""
    conveyor = Conveyor(tmp_path_factory.mktemp("demo"), "demo:", *SHORT_LISTS)
    with conveyor.client(KEYS[2]) as client:
        yield conveyor, client.submit_scheduled(Rate(every=1, unit="minute"), ["https://site.example/every-minute"])
    conveyor.stop()


@pytest.fixture(scope="session")
def demo(demo_with_schedule: tuple[Conveyor, JobRef]) -> Conveyor:
    return demo_with_schedule[0]


@pytest.fixture(scope="session")
def every_minute(demo_with_schedule: tuple[Conveyor, JobRef]) -> JobRef:
    return demo_with_schedule[1]


@pytest.fixture(scope="session")
def over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conveyor]:
    """Conveyor that tries each task once, with a gateway in a process of its own that fails as the URLs say."""
    folder = tmp_path_factory.mktemp("over_http")
    gateway = Process("LOADTEST_BIN", ["gateway", "--listen", "127.0.0.1:0"], folder / "gateway")
    conveyor = Conveyor(folder, gateway.url, "--attempts-max", "1", *SHORT_LISTS)
    yield conveyor
    conveyor.stop()
    # A test tool with nothing to lose: the signal itself may end it.
    gateway.stop(codes=(0, -signal.SIGTERM))


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # Workers call as many at once as they may. Of a shorter queue some would be dropped, and tried again after seconds.
    request_queue_size = 1024


# Only a test that failed leaves something held.
HELD_MAX_S = 2 * DEADLINE_S


def problem(code: str, detail: str) -> bytes:
    return json.dumps({"code": code, "title": "No", "detail": detail}).encode()


class ScriptedGateway:
    """A gateway that does what the path of a task's URL says.

    /missing answers 404; /flaky answers 503 once and then 200; /held/NAME answers when `release(NAME)` was called or
    /release/NAME was asked for; /unpaid/NAME answers 402 until then; /echo answers 404 and repeats the key; /repeat answers 404 and repeats the header
    X-Canary; /charged says what the call cost; anything else answers 200. A body is the URL it was asked for.
    """

    CREDITS, COST = 5, 0.0025

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self._released: defaultdict[str, threading.Event] = defaultdict(threading.Event)
        self._flaked: set[str] = set()
        self._lock = threading.Lock()
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                query = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, text = gateway._decide(self.command, query, dict(self.headers), body)
                self.send_response(status)
                if urlsplit(query["url"]).path.startswith("/charged"):
                    self.send_header("X-Request-Credits", str(gateway.CREDITS))
                    self.send_header("X-Request-Cost", str(gateway.COST))
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = _answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def _decide(self, method: str, query: dict, headers: dict, body: bytes) -> tuple[int, bytes]:
        url = query["url"]
        with self._lock:
            self.requests.append({"method": method, "query": query, "headers": headers, "body": body})
            first = url not in self._flaked
            self._flaked.add(url)
        path = urlsplit(url).path
        if path.startswith("/missing"):
            return 404, b"no such page"
        if path.startswith("/flaky") and first:
            return 503, b"not now"
        if path.startswith("/unpaid") and not self._held(path.split("/")[2]).is_set():
            return 402, problem("api_key_cap_reached", "The daily cap is reached.")
        if path.startswith("/echo"):
            return 404, problem("not_here", f"Nothing for apikey={query['apikey']}.")
        if path.startswith("/repeat"):
            return 404, problem("not_here", f"Nothing with {httpx.Headers(headers)['X-Canary']}.")
        if path.startswith("/release"):
            self.release(path.split("/")[2])
        if path.startswith("/held"):
            self._held(path.split("/")[2]).wait(HELD_MAX_S)
        return 200, url.encode()

    def _held(self, name: str) -> threading.Event:
        with self._lock:
            return self._released[name]

    def release(self, name: str) -> None:
        self._held(name).set()

    def seen(self, url: str) -> list[dict]:
        with self._lock:
            return [r for r in self.requests if r["query"]["url"] == url]

    def release_all(self) -> None:
        with self._lock:
            for event in self._released.values():
                event.set()

    def close(self) -> None:
        self._server.shutdown()


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Conveyor, ScriptedGateway]]:
    """Conveyor with a gateway that fails on request. On AWS it also answers state machines."""
    gateway = ScriptedGateway()
    variables = aws.state_machines_at(aws.STATE_MACHINES) if aws.STATE_MACHINES else {}
    folder = tmp_path_factory.mktemp("scripted")
    conveyor = Conveyor(folder, gateway.url, "--retry-base-ms", "10", variables=variables)
    yield conveyor, gateway
    # After a failed test something may still be held, and Conveyor would wait for it.
    gateway.release_all()
    conveyor.stop()
    gateway.close()


@pytest.fixture(scope="session")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Conveyor, ScriptedGateway]]:
    """Conveyor whose callers may have one live job and one scheduled one, and no webhooks but over https."""
    gateway = ScriptedGateway()
    flags = ["--active-jobs-max", "1", "--scheduled-jobs-max", "1"]
    conveyor = Conveyor(tmp_path_factory.mktemp("strict"), gateway.url, *flags, http_webhooks=False)
    yield conveyor, gateway
    gateway.release_all()
    conveyor.stop()
    gateway.close()


class Receiver:
    """A server that webhooks are sent to: it answers 200 and keeps what it got."""

    def __init__(self) -> None:
        self._seen: list[dict] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                receiver._got({"path": self.path, "headers": dict(self.headers), "body": body})
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def _got(self, request: dict) -> None:
        request["headers"] = httpx.Headers(request["headers"])
        request["json"] = json.loads(request["body"])
        with self._changed:
            self._seen.append(request)
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[dict], bool], deadline_s: float = DEADLINE_S) -> dict:
        with self._changed:
            found = self._changed.wait_for(lambda: next(filter(wanted, self._seen), None), deadline_s)
        assert found, f"no such delivery within {deadline_s} s"
        return found

    def close(self) -> None:
        self._server.shutdown()


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()
