"""What schemathesis cannot know from the description alone.

Cases that break the description are sent as they were made. Those that keep to it are brought in line with what a
JSON Schema cannot say in a readable way, and the description says in words: which fields exclude each other, what a
host is, that a cursor comes from the answer before. So all of them must be accepted.
"""

import itertools
import json
import os
import re
from urllib.parse import parse_qsl, urlsplit

import schemathesis
from schemathesis.generation.meta import TestPhase

TURNS = itertools.count()
FURNISHED = json.loads(os.environ["FURNISHED"])
PLAIN_URL = re.compile(r"https?://[a-z][a-z-]*(\.[a-z][a-z-]*)*(/[!-~]*)?", re.ASCII)


@schemathesis.serializer("application/x-ndjson")
def of_lines(context, value):
    """A list is bytes, whatever is in them."""
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.hook
def before_call(context, case, kwargs):
    mode = case.meta.generation.mode if case.meta else None
    if mode is None:
        return
    operation = case.operation.definition.raw.get("operationId")
    if not mode.is_positive:
        if operation == "submitJob":
            keep_refusable(case)
        return
    # Those of a stateful run are of what it made itself.
    if case.meta.phase.name != TestPhase.STATEFUL:
        furnish(operation, case)
    keep_query(case)
    if case.headers and "Idempotency-Key" in case.headers:
        # One of its own: a second request under the same key is another's, or answered as the first.
        case.headers["Idempotency-Key"] = f"key-{next(TURNS)}"
    if isinstance(case.body, dict | list):
        case.body = whole_numbers(case.body)
    keep_body(operation, case.body)


def keep_refusable(case):
    """What breaks the description is refused where it is used."""
    if str((case.query or {}).get("dry_run")).lower() == "true":
        # A dry run reports invalid tasks with 200.
        del case.query["dry_run"]
    body = case.body
    if isinstance(body, dict) and body.get("schedule") is not None and body.get("type") in (None, "regular"):
        # Of any other job the server does not read it.
        body["type"] = "scheduled"


def furnish(operation, case):
    """Most ids that fit a pattern lead nowhere: three in four become ones that do."""
    parameters = case.path_parameters or {}
    chance = next(TURNS)
    if not parameters or chance % 4 == 0:
        return
    if url := FURNISHED["signed"].get(operation):
        parts, template = urlsplit(url), case.path.split("/")
        for name, value in zip(template, parts.path.split("/"), strict=True):
            if name.startswith("{"):
                parameters[name.strip("{}")] = value
        case.query = dict(parse_qsl(parts.query))
        return
    # What is deleted is not there for the others any more.
    places = FURNISHED["doomed" if operation in ("deleteJob", "deleteRun") else "jobs"]
    for name, value in places[chance // 4 % len(places)].items():
        if name in parameters:
            parameters[name] = value
    if "upload" in parameters and operation != "abortInput":
        parameters["upload"] = FURNISHED["uploads"][chance // 4 % len(FURNISHED["uploads"])]


def keep_query(case):
    if not case.query:
        return
    # Sealed: it can only come from the answer before. Edited ones have tests of their own.
    case.query.pop("cursor", None)
    # Refuses what the description allows a body to have beyond its fields.
    case.query.pop("strict", None)
    # Of a stream, which has no end: schemathesis asks for pages.
    case.query.pop("after", None)


def whole_numbers(value):
    """JSON Schema calls 15.0 an integer; integers are taken as JSON writes them."""
    if isinstance(value, dict):
        return {name: whole_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [whole_numbers(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def keep_body(operation, body):
    if not isinstance(body, dict):
        return
    match operation:
        case "submitJob":
            keep_submit(body)
        case "addTasks":
            keep_tasks(body.get("tasks"))
        case "changeLimits":
            keep_limits(body)
        case "putWebhook" | "testWebhook":
            keep_webhook(body)
        case "putSchedule":
            keep_schedule(body)
        case "createKey":
            if body.get("operator"):
                body.pop("caller", None)
                body.pop("quotas", None)
        case "rerunJob":
            keep_params(body)
        case "createInput":
            keep_input(body)
        case "reconcile":
            body.pop("from", None)
        case "redriveDeadLetters":
            keep_redrive(body)


def keep_submit(body):
    if body.get("tasks") is not None or body.get("file_input_id") is None:
        body.pop("file_input_id", None)
        body.pop("on_invalid_rows", None)
    keep_type(body)
    if body.get("webhook"):
        keep_webhook(body["webhook"])
    # Only where a state machine can be answered.
    body.pop("sfn_task_token", None)
    keep_params(body)
    keep_limits(body)
    keep_tasks(body.get("tasks"))


def keep_type(body):
    if body.get("type") != "scheduled":
        body.pop("schedule", None)
    elif not body.get("tasks") and not body.get("file_input_id"):
        # Only what is there from the start can be done again and again.
        body["type"] = "regular"
        body.pop("schedule", None)
    else:
        body["status"] = "closed"
        body["schedule"] = body.get("schedule") or {"rate": {"every": 1, "unit": "day"}}
        keep_schedule(body["schedule"])


def keep_schedule(body):
    """One rule, that will fire one day, in a zone that there is."""
    rules = [name for name in ("rate", "calendar", "at") if body.get(name) is not None]
    for name in rules[1:] if rules else ():
        del body[name]
    if not rules:
        body["rate"] = {"every": 1, "unit": "day"}
    elif rules[0] == "rate":
        body["rate"]["every"] = min(body["rate"]["every"], 366)
    else:
        body["timezone"] = "Europe/Berlin"
    if body.get("at"):
        body["at"] = "2099-01-01T09:00:00"
    if body.get("calendar"):
        cadence = body["calendar"]["cadence"]
        chosen = [name for name in cadence if cadence[name] is not None]
        for name in [name for name in cadence if name not in chosen[:1]]:
            del cadence[name]
        if not cadence:
            cadence["daily"] = {}


def keep_webhook(body):
    """An address, so that no name is looked up, and one that nobody listens at."""
    body["url"] = "http://127.0.0.1:9/hook"
    body["signature"] = False


def keep_tasks(tasks):
    for task in tasks or []:
        keep_params(task)
        if not PLAIN_URL.fullmatch(task["url"]):
            task["url"] = "https://site.example/" + str(len(task["url"]))
        if task.get("body") is not None:
            task["method"] = "POST"


def keep_params(body):
    """Which parameters there are depends on the gateway."""
    if body.get("zenrows_params"):
        body["zenrows_params"] = {"original_status": "true", "custom_headers": {"X-Test": "1"}}


def keep_limits(body):
    if retry := body.get("retry"):
        if (retry.get("cap_ms") or 2**53) < (retry.get("base_ms") or 0):
            retry["cap_ms"] = retry["base_ms"]
    if sites := body.get("domain_limits"):
        for limit in sites.values():
            if limit.get("per_second") is None:
                limit.pop("burst", None)
        body["domain_limits"] = {f"site{n}.example": limit for n, limit in enumerate(sites.values())}


def keep_input(body):
    # Only a list that is sent in parts has a size of them.
    if not body.get("multipart"):
        body.pop("part_bytes", None)
    csv = body.get("csv")
    if csv is None:
        return
    if body["type"] != "csv":
        del body["csv"]
        return
    if (csv.get("delimiter") or ",") == (csv.get("quote") or '"'):
        csv.pop("delimiter", None)
        csv.pop("quote", None)
    for name, column in csv["fields"].items():
        if isinstance(column, str):
            csv["header"] = True
            csv["fields"][name] = column or name


def keep_redrive(body):
    body.pop("cursor", None)
    if any(body.get(name) is not None for name in ("job_id", "run_id", "error")):
        body.pop("all", None)
