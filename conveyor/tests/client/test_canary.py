"""Credentials that a caller sends are readable nowhere at rest: not in the data directory, the table or the logs (SPEC 13)."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Conveyor, Receiver, ScriptedGateway, eventually

KEY = "canary-api-key-5Jq0c2Xv"
HEADER = "canary-header-of-a-job-8Zt4"
TASK_HEADER = "canary-header-of-a-task-1Lw9"
LONG_HEADER = "canary-header-of-a-long-list-7Pd3"
WAIT = {"poll_interval": 0.2, "timeout": 120.0}


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Conveyor, ScriptedGateway, Path]]:
    gateway = ScriptedGateway()
    conveyor = Conveyor(tmp_path / "canary", gateway.url, "--api-key", KEY)
    yield conveyor, gateway, tmp_path / "canary"
    conveyor.stop()
    gateway.close()


def headers(value: str) -> dict:
    return {"custom_headers": {"X-Canary": value}}


def header_of(request: dict) -> str:
    return httpx.Headers(request["headers"])["X-Canary"]


def rows_of_tables() -> Iterator[bytes]:
    """Everything in DynamoDB, as the server tells it. It does not ask who we are."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB")
    if not endpoint:
        return

    def call(operation: str, body: dict) -> dict:
        signed = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
        answer = httpx.post(
            endpoint,
            json=body,
            headers={
                "X-Amz-Target": f"DynamoDB_20120810.{operation}",
                "Content-Type": "application/x-amz-json-1.0",
                "Authorization": signed,
                "X-Amz-Date": "20260101T000000Z",
            },
        )
        answer.raise_for_status()
        return answer.json()

    tables = call("ListTables", {})["TableNames"]
    assert tables, "the table is somewhere"
    for table in tables:
        start: dict = {}
        while True:
            page = call("Scan", {"TableName": table, **start})
            yield str(page.get("Items")).encode()
            if "LastEvaluatedKey" not in page:
                break
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def files_under(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()


def test_a_canary_is_found_nowhere(watched: tuple[Conveyor, ScriptedGateway, Path], receiver: Receiver):
    conveyor, gateway, folder = watched
    with conveyor.client(KEY) as client:
        secret = client.rotate_hmac_key().secret
        client.finalize_hmac_key()
        ref = client.submit_regular(
            ["https://site.example/one", {"url": "https://site.example/two", "zenrows_params": headers(TASK_HEADER)}],
            zenrows_params=headers(HEADER),
            webhook={"url": receiver.url("/canary"), "signature": True},
        )
        run = ref.run.wait(**WAIT)
        assert run.stats.successful == 2
        receiver.wait_for(lambda got: got["json"].get("run_id") == run.run_id)
        long = client.submit_regular(
            [
                {"url": f"https://site.example/long/{n}", "zenrows_params": headers(LONG_HEADER)} if n == 7
                else {"url": f"https://site.example/long/{n}"}
                for n in range(10_001)
            ],
            wait_for_ingest=True,
        )
        eventually("the seventh was called", lambda: gateway.seen("https://site.example/long/7"), 60)
        long.run.stop()
    # They did arrive where they were meant to.
    [one] = gateway.seen("https://site.example/one")
    assert header_of(one) == HEADER and one["query"]["apikey"] == KEY
    [two] = gateway.seen("https://site.example/two")
    assert header_of(two) == TASK_HEADER
    assert header_of(gateway.seen("https://site.example/long/7")[0]) == LONG_HEADER

    canaries = [text.encode() for text in (KEY, HEADER, TASK_HEADER, LONG_HEADER, secret)]
    canaries.append(base64.b64decode(secret))
    searched = 0
    for name, content in files_under(folder):
        searched += len(content)
        for canary in canaries:
            assert canary not in content, f"{canary!r} is in {name}"
    for content in rows_of_tables():
        searched += len(content)
        for canary in canaries:
            assert canary not in content, f"{canary!r} is in the table"
    assert searched > 100_000, "there was something to search"
