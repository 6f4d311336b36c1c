"""Holds the running API against its own description: schemathesis, with every check, over every operation.

    CONVEYOR_BIN=target/debug/conveyor python conveyor/tests/schemathesis/run.py [--max-examples N] [--seed N]

Starts `conveyor dev` with the gateway that is built in, on a folder of its own, and makes something of everything, so
that ids lead somewhere. Ends with the code of schemathesis: anything that it found is a failure.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
KEY = "schemathesis-key-of-a-caller-01"
OPERATOR_KEY = "schemathesis-key-of-an-operator-01"
# Long enough for a debug build on a machine whose cores are all busy.
DEADLINE_S = 180.0
LISTENING = re.compile(r"^listening on (http://127\.0\.0\.1:\d+)$")


def start(binary: str, folder: Path) -> tuple[subprocess.Popen, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CONVEYOR_")}
    out = folder / "stdout.log"
    command = [
        binary, "dev", "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:0",
        "--gateway-url", "demo:", "--allow-http-webhooks", "--api-key", KEY, "--operator-key", OPERATOR_KEY,
    ]  # fmt: skip
    with out.open("wb") as stdout, (folder / "stderr.log").open("wb") as stderr:
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env=environment)
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end and process.poll() is None:
        for line in out.read_text().splitlines():
            if match := LISTENING.match(line):
                return process, match[1]
        time.sleep(0.05)
    process.kill()
    sys.exit(f"conveyor does not listen:\n{(folder / 'stderr.log').read_text()}")


def call(url: str, method: str, path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return json.loads(answer.read() or b"null")


def furnish(url: str) -> dict:
    """Something of everything: jobs to look at, jobs to delete, slots, and signed URLs."""
    tasks = [{"url": f"https://site.example/{n}"} for n in range(3)]
    submit = lambda **more: call(url, "POST", "/v1/jobs", {"tasks": tasks, **more})  # noqa: E731
    hook = {"url": "http://127.0.0.1:9/", "signature": False}
    jobs = [submit(name="done", webhook=hook), submit(status="open"), submit(max_inflight=1), submit(status="open")]
    doomed = [submit() for _ in range(4)]
    for job in (jobs[0], jobs[2]):
        end = time.monotonic() + DEADLINE_S
        while call(url, "GET", f"/v1/jobs/{job['job_id']}")["latest_run"]["status"] != "completed":
            assert time.monotonic() < end, "a job does not complete"
            time.sleep(0.1)
    whole = [call(url, "POST", "/v1/job_inputs", {"type": "lines"}) for _ in range(2)]
    parts = [call(url, "POST", "/v1/job_inputs", {"type": "lines", "multipart": True}) for _ in range(2)]
    part = call(url, "POST", f"/v1/job_inputs/{parts[0]['file_input_id']}/parts", {"numbers": [1]})
    done = call(url, "GET", f"/v1/jobs/{jobs[0]['job_id']}/results")["results"][0]
    places = [place_of(url, job) for job in jobs]
    export = finish(url, places[0])
    return {
        "jobs": places,
        "doomed": [place_of(url, job) for job in doomed],
        "uploads": [slot["file_input_id"] for slot in (*whole, *parts)],
        "signed": {
            "getSignedContent": done["result_url"],
            "downloadExport": export["download_url"],
            "putList": whole[0]["upload"]["url"],
            "putPart": part["parts"][0]["url"],
        },
    }


def finish(url: str, place: dict[str, str]) -> dict:
    """What a run that has ended can have: a notification, and an export."""
    job, run = f"/v1/jobs/{place['job']}", place["run"]
    place["event"] = call(url, "GET", f"{job}/deliveries")["deliveries"][0]["event_id"]
    place["export"] = call(url, "POST", f"{job}/runs/{run}/exports", {"format": "jsonl"})["export_id"]
    end = time.monotonic() + DEADLINE_S
    while True:
        export = call(url, "GET", f"{job}/runs/{run}/exports/{place['export']}")
        if "download_url" in export:
            return export
        assert time.monotonic() < end, f"an export does not complete: {export}"
        time.sleep(0.1)


def place_of(url: str, job: dict) -> dict[str, str]:
    rows = call(url, "GET", f"/v1/jobs/{job['job_id']}/results?limit=1")["results"]
    return {"job": job["job_id"], "run": job["latest_run"]["run_id"], "task": rows[0]["task_id"]}


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--max-examples", default="20")
    # What it does not know is passed on to schemathesis.
    known, rest = arguments.parse_known_args()
    binary = os.environ.get("CONVEYOR_BIN")
    assert binary, "CONVEYOR_BIN must name the binary; `cargo xtask test --only schemathesis` sets it"
    with tempfile.TemporaryDirectory() as folder:
        server, url = start(binary, Path(folder))
        try:
            environment = os.environ | {
                "SCHEMATHESIS_HOOKS": str(HERE / "hooks.py"),
                "FURNISHED": json.dumps(furnish(url)),
                "CALLER_KEY": KEY,
                "OPERATOR_KEY": OPERATOR_KEY,
            }
            command = [
                str(Path(sys.executable).parent / "schemathesis"),
                "--config-file", str(HERE / "schemathesis.toml"),
                "run", f"{url}/v1/openapi.json", "--max-examples", known.max_examples, *rest,
            ]  # fmt: skip
            code = subprocess.run(command, env=environment, cwd=folder).returncode
            if server.poll() is not None:
                print(f"conveyor ended with {server.returncode}", file=sys.stderr)
                code = code or 1
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                code = 1
        log = (Path(folder) / "stderr.log").read_text()
        if code:
            quiet = [line for line in log.splitlines() if " INFO " not in line]
            print("what conveyor complained of:", *quiet[-100:], sep="\n", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
