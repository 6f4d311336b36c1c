"""Credentials that a caller sends are readable nowhere at rest: not in the data directory, the table, the queues, the bucket or
the logs, and there not even if everything is logged (SPEC 13)."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import aws
import httpx
import pytest
from conftest import (
    INLINE_TASKS_MAX,
    SHORT_LISTS,
    VARIABLES,
    WAIT,
    Conveyor,
    Receiver,
    ScriptedGateway,
    eventually,
    http,
    program,
)
from zenrows.batch import At, verify_webhook_signature

KEY = "canary-api-key-5Jq0c2Xv"
OPERATOR = "canary-operator-key-3Vh6s1Rk"
HEADER = "canary-header-of-a-job-8Zt4"
TASK_HEADER = "canary-header-of-a-task-1Lw9"
RERUN_HEADER = "canary-header-of-a-rerun-6Mb2"
LONG_HEADER = "canary-header-of-a-long-list-7Pd3"
SCHEDULED_HEADER = "canary-header-of-a-schedule-4Fy8"
TOKEN = "canary-task-token-2Gc7"
# What a caller or an operator sent, whichever tests ran.
CALLERS = [KEY, OPERATOR, HEADER, TASK_HEADER, RERUN_HEADER, LONG_HEADER, SCHEDULED_HEADER, TOKEN]
# No secret: what is searched is searched in vain, unless this is found there.
PLAIN = "in-plain-sight-9Wn5"
LONG = INLINE_TASKS_MAX + 1


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Iterator[tuple[Conveyor, ScriptedGateway, Path]]:
    gateway = ScriptedGateway()
    # Whatever state machines are told goes to the receiver.
    variables = {"CONVEYOR_LOG": "trace", **aws.state_machines_at(receiver.url(""))}
    flags = ["--api-key", KEY, "--operator-key", OPERATOR, "--sfn", *SHORT_LISTS]
    folder = tmp_path_factory.mktemp("canary")
    conveyor = Conveyor(folder, gateway.url, *flags, variables=variables)
    yield conveyor, gateway, folder
    gateway.release_all()
    conveyor.stop()
    gateway.close()


def page(path: str) -> str:
    return f"https://site.example/{path}/{PLAIN}"


def long_list(path: str, header: str) -> list[dict]:
    """More tasks than are written on a request, each with a header of its own."""
    return [{"url": page(f"{path}/{n}"), "zenrows_params": headers(header)} for n in range(LONG)]


def called(gateway: ScriptedGateway, path: str) -> dict | None:
    """Some call of a page below a path, once there was one. Which ones are first is nobody's promise."""
    return next((r for r in list(gateway.requests) if f"/{path}/" in r["query"]["url"]), None)


def headers(value: str) -> dict:
    return {"custom_headers": {"X-Canary": value}}


def header_of(request: dict) -> str:
    return httpx.Headers(request["headers"])["X-Canary"]


def made_key(conveyor: Conveyor) -> str:
    command = [str(program("conveyor")), "keys", "create", PLAIN, "--json"]
    command += ["--server", conveyor.url, "--operator-key", OPERATOR]
    made = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True, env=VARIABLES)
    return json.loads(made.stdout)["key"]


# ----- what is kept, and where -----


def deployment(folder: Path) -> str | None:
    """The name of table, bucket and queues; none on the embedded store."""
    name = folder / "data" / "cluster-name"
    return f"cluster-{name.read_text()[:16]}" if aws.endpoint("dynamodb") else None


def kept(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Everything that is kept: what sort of thing it is, its name, and its bytes."""
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            continue
        yield "log" if path.name == "stderr.log" else "file", str(path.relative_to(folder)), content
    if name := deployment(folder):
        for row in aws.rows(name):
            yield "row", row[:120].decode(errors="replace"), row
        for queue in aws.queues(name):
            for message in aws.messages(queue):
                yield "message", queue, message
        for key, body in aws.objects(name):
            yield "object", key, body


def search(folder: Path, canaries: list[bytes], plain: dict[str, bytes]) -> None:
    """Fails if a canary is found, and if something that is there for sure is not: then nothing was searched."""
    found, seen = set(), set()
    for sort, name, content in kept(folder):
        found.update(
            f"{canary!r} is in the {sort} {name}: {around(content, canary)!r}" for canary in canaries if canary in content
        )
        if sort in plain and plain[sort] in content:
            seen.add(sort)
    assert not found, "\n".join(sorted(found)[:20])
    assert seen == set(plain), "searched in vain"


def forms(canary: bytes) -> list[bytes]:
    """A canary as it is, in hex, as a list of numbers (how bytes are logged), and within something in base64."""
    encoded = [base64.b64encode(bytes(shift) + canary)[4 if shift else 0 : -4] for shift in range(3)]
    return [canary, canary.hex().encode(), ", ".join(map(str, canary)).encode(), *encoded]


def around(content: bytes, canary: bytes) -> bytes:
    at = content.find(canary)
    return content[max(0, at - 300) : at + len(canary) + 60]


@contextmanager
def no_list_is_read(conveyor: Conveyor) -> Iterator[None]:
    """Stops the processes that read lists: messages that call for it stay in their queue."""
    readers = conveyor.processes("ingest")
    assert len(readers) == 2, readers
    try:
        for reader in readers:
            os.kill(reader, signal.SIGSTOP)
        yield
    finally:
        for reader in readers:
            os.kill(reader, signal.SIGCONT)


def call_for_the_list(folder: Path, job_id: str) -> bytes:
    """The message that calls for the list of a job to be read."""
    found: list[bytes] = []

    def look() -> list[bytes]:
        found[:] = [call for call in aws.messages(f"{deployment(folder)}-control") if job_id.encode() in call]
        return found

    eventually("a call for the list", look)
    return found[0]


# ----- the test -----


def test_a_canary_is_found_nowhere(watched: tuple[Conveyor, ScriptedGateway, Path], receiver: Receiver):
    conveyor, gateway, folder = watched
    with conveyor.client(KEY) as client:
        secret = client.rotate_hmac_key().secret
        # The client has no field for a token.
        submit = {
            "tasks": [
                {"url": page("one")},
                {"url": page("two"), "zenrows_params": headers(TASK_HEADER)},
                {"url": page("echo")},
            ],
            "zenrows_params": headers(HEADER),
            "webhook": {"url": receiver.url("/canary"), "signature": True},
            "sfn_task_token": TOKEN,
        }
        answer = http.post(f"{conveyor.url}/v1/jobs", json=submit, headers={"X-API-Key": KEY})
        assert answer.status_code == 201, answer.text
        job = client.job(answer.json()["job_id"])
        run = job.run.wait(**WAIT)
        assert (run.stats.successful, run.stats.failed) == (2, 1)
        receiver.wait_for(lambda got: got["json"].get("run_id") == run.run_id)
        told = receiver.wait_for(lambda got: got["json"].get("taskToken") == TOKEN)
        assert told["headers"]["X-Amz-Target"] == "AWSStepFunctions.SendTaskSuccess"
        overrides = {"zenrows_params": headers(RERUN_HEADER)}
        answer = http.post(f"{conveyor.url}/v1/jobs/{job.job_id}/rerun", json=overrides, headers={"X-API-Key": KEY})
        assert answer.status_code == 201, answer.text
        assert job.run.wait(**WAIT).stats.completed == 3
        # They did arrive where they were meant to.
        one, again = gateway.seen(page("one"))
        assert (header_of(one), one["query"]["apikey"], header_of(again)) == (HEADER, KEY, RERUN_HEADER)
        assert header_of(gateway.seen(page("two"))[0]) == TASK_HEADER

        made = made_key(conveyor)
        sent = [*CALLERS, made, secret]
        canaries = [form for text in sent for form in forms(text.encode())] + forms(base64.b64decode(secret))
        on_aws = bool(deployment(folder))
        plain = {"log": b"TRACE"} | dict.fromkeys(["row", "object"] if on_aws else ["file"], PLAIN.encode())

        # Runs that are live and not finished: their messages are in the queues.
        with conveyor.client(made) as owner:
            live = owner.submit_regular([page(f"held/live/{n}") for n in range(150)], zenrows_params=headers(HEADER))
            eventually("called", lambda: called(gateway, "held/live"))
            assert called(gateway, "held/live")["query"]["apikey"] == made
            # With a key, so that there is an answer to be kept.
            with no_list_is_read(conveyor) if on_aws else nullcontext():
                long = client.submit_regular(long_list("held/long", LONG_HEADER), idempotency_key=PLAIN)
                call = call_for_the_list(folder, long.job_id) if on_aws else b""
            assert not [canary for canary in canaries if canary in call]
            if on_aws:
                plain["message"] = next(live.run.results(status="processing")).task_id.encode()
            search(folder, canaries, plain)
            eventually("called", lambda: called(gateway, "held/long"))
            assert header_of(called(gateway, "held/long")) == LONG_HEADER
            search(folder, canaries, plain)
            stats = live.run.load().stats
            assert stats.completed < stats.total, "it was live all the time"
            live.run.stop()
        long.run.stop()
        for name in ("live", "long"):
            gateway.release(name)
        # Of a run that was stopped there may be none.
        plain.pop("message", None)

        # The list of a schedule is kept for as long as the job.
        later = At((datetime.now() + timedelta(days=400)).replace(microsecond=0), timezone="UTC")
        scheduled = client.submit_scheduled(later, long_list("held/fired", SCHEDULED_HEADER))
        eventually("it has a copy of its own", lambda: has_template(folder, scheduled.job_id))
        scheduled.rerun()
        eventually("called", lambda: called(gateway, "held/fired"))
        assert header_of(called(gateway, "held/fired")) == SCHEDULED_HEADER
        search(folder, canaries, plain)
        scheduled.run.stop()
        gateway.release("fired")


def test_a_gateway_that_repeats_a_header_does_not_have_it_kept(watched: tuple[Conveyor, ScriptedGateway, Path]):
    """As with a key that it repeats: what it says of an error is kept, and read by others."""
    conveyor, gateway, folder = watched
    with conveyor.client(KEY) as client:
        run = client.submit_regular([page("repeat")], zenrows_params=headers(HEADER)).run.wait(**WAIT)
        assert (run.stats.failed, header_of(called(gateway, "repeat"))) == (1, HEADER)
        [row] = run.results()
        search(folder, forms(HEADER.encode()), {"log": b"TRACE"})
        assert HEADER not in row.error.detail


def test_a_signing_secret_is_found_nowhere(watched: tuple[Conveyor, ScriptedGateway, Path], receiver: Receiver):
    """The last one here: it also searches what the server leaves when it ends."""
    conveyor, _, folder = watched
    with conveyor.client() as client:
        key = client.rotate_hmac_key()
        webhook = {"url": receiver.url("/signed"), "signature": True}
        run = client.submit_regular([page("signed")], webhook=webhook).run.wait(**WAIT)
        told = receiver.wait_for(lambda got: got["json"].get("run_id") == run.run_id)
        assert verify_webhook_signature(told["body"], told["headers"]["X-Signature"], {key.kid: key.secret}), "it is used"
    canaries = forms(key.secret.encode()) + forms(base64.b64decode(key.secret))
    plain = {"log": b"TRACE"} | dict.fromkeys(["row", "object"] if deployment(folder) else ["file"], PLAIN.encode())
    search(folder, canaries, plain)
    conveyor.stop()
    search(folder, canaries + [form for text in CALLERS for form in forms(text.encode())], plain)


def has_template(folder: Path, job_id: str) -> bool:
    """Whether the list of a schedule was copied to where it stays."""
    if name := deployment(folder):
        return aws.has_objects(name, f"templates/{job_id}/")
    return any(f"templates/{job_id}/" in str(path) for path in folder.rglob("*"))
