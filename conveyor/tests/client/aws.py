"""Everything that a deployment keeps in DynamoDB, SQS and S3, as the servers of the tests tell it. They do not ask who we are."""

import base64
import os
from collections.abc import Iterator
from xml.etree import ElementTree

import httpx

REGION = "us-east-1"
ACCOUNT = "000000000000"
CALL_DEADLINE_S = 120.0
MINISTACK = os.environ.get("CONVEYOR_TEST_AWS_MINISTACK_URL")
# The one server with Step Functions. Where Localstack cannot run, it speaks SQS and S3 as well.
STATE_MACHINES = MINISTACK


def state_machines_at(url: str) -> dict[str, str]:
    """Variables of a server that answers the state machines of this URL."""
    return {
        "AWS_ENDPOINT_URL_SFN": url,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def endpoint(service: str) -> str | None:
    return os.environ.get(f"AWS_ENDPOINT_URL_{service.upper()}")


def call(url: str, service: str, target: str, body: dict) -> dict:
    """One operation of a service that speaks JSON."""
    headers = {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0", **signed(service)}
    answer = httpx.post(url, json=body, headers=headers, timeout=CALL_DEADLINE_S)
    assert answer.status_code == 200, f"{target}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else {}


def signed(service: str) -> dict[str, str]:
    scope = f"test/20260101/{REGION}/{service}/aws4_request"
    return {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0",
        "X-Amz-Date": "20260101T000000Z",
    }


def rows(table: str) -> Iterator[bytes]:
    url = endpoint("dynamodb")
    start: dict = {}
    while True:
        page = call(url, "dynamodb", "DynamoDB_20120810.Scan", {"TableName": table, **start})
        for item in page["Items"]:
            yield b"\n".join([name.encode() + b"=" + text for name, value in item.items() for text in texts(value)])
        if "LastEvaluatedKey" not in page:
            return
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def texts(value: dict) -> Iterator[bytes]:
    """What an attribute holds, at any depth. Bytes travel as base64, in which nothing would be found."""
    [(kind, inner)] = value.items()
    match kind:
        case "B":
            yield base64.b64decode(inner)
        case "BS":
            yield from map(base64.b64decode, inner)
        case "M":
            for name, member in inner.items():
                yield name.encode()
                yield from texts(member)
        case "L":
            for member in inner:
                yield from texts(member)
        case _:
            yield str(inner).encode()


def queues(prefix: str) -> list[str]:
    """Names of queues."""
    url = endpoint("sqs")
    found, token = [], {}
    while True:
        page = call(url, "sqs", "AmazonSQS.ListQueues", {"QueueNamePrefix": prefix, "MaxResults": 100, **token})
        found += [queue.rsplit("/", 1)[1] for queue in page.get("QueueUrls", [])]
        if "NextToken" not in page:
            return found
        token = {"NextToken": page["NextToken"]}


def messages(queue: str) -> list[bytes]:
    """All messages of a queue, also those that are received or delayed. The servers show them without receiving them: a
    receive would count, and after some of them the message is a dead letter."""
    found = ministack_messages(queue) if endpoint("sqs") == MINISTACK else localstack_messages(queue)
    return [str([message["Body"], message.get("MessageAttributes")]).encode() for message in found]


def localstack_messages(queue: str) -> list[dict]:
    answer = httpx.get(
        f"{endpoint('sqs')}/_aws/sqs/messages/{REGION}/{ACCOUNT}/{queue}",
        params={"ShowInvisible": "true", "ShowDelayed": "true"},
        headers={"Content-Type": "application/x-amz-json-1.0"},
        timeout=CALL_DEADLINE_S,
    )
    if answer.status_code == 400 and b"QueueDoesNotExist" in answer.content:
        return []  # its run ended since the queues were listed
    assert answer.status_code == 200, answer.text
    return answer.json().get("Messages", [])


def ministack_messages(queue: str) -> list[dict]:
    answer = httpx.get(
        f"{MINISTACK}/_ministack/sqs/messages",
        params={"account": ACCOUNT, "region": REGION, "QueueUrl": f"{MINISTACK}/{ACCOUNT}/{queue}"},
        timeout=CALL_DEADLINE_S,
    )
    assert answer.status_code == 200, answer.text
    # Nothing at all if the queue was deleted since the queues were listed.
    queues = answer.json()["messages"].get(ACCOUNT, {}).get(REGION, {})
    return [message for shown in queues.values() for message in shown]


def keys(s3: httpx.Client, bucket: str, prefix: str = "") -> Iterator[str]:
    token: dict = {}
    while True:
        # Few a page, so that there is more than one.
        where = {"list-type": "2", "max-keys": "20", "prefix": prefix, **token}
        answer = s3.get(f"{endpoint('s3')}/{bucket}", params=where)
        assert answer.status_code == 200, answer.text
        page = ElementTree.fromstring(answer.content)
        yield from [found.text for found in page.findall("{*}Contents/{*}Key")]
        after = page.findtext("{*}NextContinuationToken")
        if not after:
            return
        token = {"continuation-token": after}


def has_objects(bucket: str, prefix: str) -> bool:
    with httpx.Client(headers=signed("s3"), timeout=CALL_DEADLINE_S) as s3:
        return any(True for _ in keys(s3, bucket, prefix))


def objects(bucket: str) -> Iterator[tuple[str, bytes]]:
    """Keys and bodies."""
    with httpx.Client(headers=signed("s3"), timeout=CALL_DEADLINE_S) as s3:
        for key in keys(s3, bucket):
            body = s3.get(f"{endpoint('s3')}/{bucket}/{key}")
            # What was removed since it was listed is not kept.
            if body.status_code != 404:
                assert body.status_code == 200, body.text
                yield key, body.content
