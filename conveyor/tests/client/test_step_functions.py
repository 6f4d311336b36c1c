"""A state machine of Step Functions that hands its token to a job and goes on when the job's run has ended: the whole way, on a
server that runs state machines."""

import json
import time
from collections.abc import Iterator

import aws
import pytest
from conftest import KEYS, WAIT, Conveyor, ScriptedGateway, eventually, http, program

KEY = {"X-API-Key": KEYS[0]}
SERVER = aws.STATE_MACHINES
# Where the other servers are, this one is, too.
assert SERVER or not aws.endpoint("dynamodb"), "CONVEYOR_TEST_AWS_MINISTACK_URL must name a server with Step Functions"
pytestmark = pytest.mark.skipif(not SERVER, reason="needs AWS-compatible servers: the step client-aws has them")


def states(operation: str, **body: object) -> dict:
    return aws.call(SERVER, "states", f"AWSStepFunctions.{operation}", body)


class Machine:
    """An execution that waits for an activity, and the token that it waits with."""

    def __init__(self, name: str):
        name = f"{name}-{time.time_ns()}"
        activity = states("CreateActivity", name=name)["activityArn"]
        definition = {"StartAt": "Scrape", "States": {"Scrape": {"Type": "Task", "Resource": activity, "End": True}}}
        role = f"arn:aws:iam::{aws.ACCOUNT}:role/tests"
        machine = states("CreateStateMachine", name=name, definition=json.dumps(definition), roleArn=role)
        self._execution = states("StartExecution", stateMachineArn=machine["stateMachineArn"])["executionArn"]
        self.token = ""
        eventually("it waits", lambda: self._take(activity))

    def _take(self, activity: str) -> str:
        self.token = states("GetActivityTask", activityArn=activity, workerName="tests").get("taskToken") or ""
        return self.token

    def end(self) -> dict:
        eventually("it ended", lambda: self._look()["status"] != "RUNNING")
        return self._look()

    def _look(self) -> dict:
        return states("DescribeExecution", executionArn=self._execution)


@pytest.fixture(scope="module", params=["as it is tested", "embedded"])
def machines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Conveyor, ScriptedGateway]]:
    """Conveyor that answers state machines: on the backend under test, and on the embedded store, which needs a flag for it."""
    if request.param == "as it is tested":
        yield request.getfixturevalue("scripted")
        return
    gateway = ScriptedGateway()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONVEYOR_BIN", str(program("conveyor")))
        folder = tmp_path_factory.mktemp("machines")
        conveyor = Conveyor(folder, gateway.url, "--sfn", variables=aws.state_machines_at(SERVER))
    yield conveyor, gateway
    gateway.release_all()
    conveyor.stop()
    gateway.close()


def submit(conveyor: Conveyor, token: str, path: str) -> str:
    body = {"tasks": [{"url": f"https://site.example{path}"}], "sfn_task_token": token, "external_id": "of-a-machine"}
    answer = http.post(f"{conveyor.url}/v1/jobs", json=body, headers=KEY)
    assert answer.status_code == 201 and token not in answer.text, answer.text
    return answer.json()["job_id"]


def delivery(conveyor: Conveyor, job_id: str) -> dict:
    """The one delivery of a job, once it has come to an end."""
    found: list = []

    def ended() -> bool:
        found[:] = http.get(f"{conveyor.url}/v1/jobs/{job_id}/deliveries", headers=KEY).json()["deliveries"]
        return bool(found) and found[0]["state"] != "pending"

    eventually("an end of the delivery", ended)
    [one] = found
    assert one["target"] == "step_functions"
    return one


def test_a_machine_goes_on_when_its_run_is_completed(machines: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = machines
    machine = Machine("completes")
    job = submit(conveyor, machine.token, "/machine")
    with conveyor.client() as client:
        run = client.wait_for_run(job, **WAIT)
        end = machine.end()
        assert end["status"] == "SUCCEEDED", end
        event = json.loads(end["output"])
        assert (event["event_type"], event["run_id"], event["external_id"]) == ("run.completed", run.run_id, "of-a-machine")
        assert event["stats"]["successful"] == 1
        assert delivery(conveyor, job)["state"] == "delivered"
        # Only the first run was waited for.
        client.job(job).rerun().wait(**WAIT)
        assert delivery(conveyor, job)["run_id"] == run.run_id


@pytest.mark.parametrize("how", ["failed", "stopped", "deleted"])
def test_a_machine_fails_with_its_run(machines: tuple[Conveyor, ScriptedGateway], how: str):
    conveyor, gateway = machines
    machine = Machine(how)
    path, error = {
        "failed": ("/unpaid/machine", "api_key_cap_reached"),
        "stopped": ("/held/machine-1", "run_stopped"),
        "deleted": ("/held/machine-2", "run_deleted"),
    }[how]
    job = submit(conveyor, machine.token, path)
    with conveyor.client() as client:
        eventually("called", lambda: gateway.seen(f"https://site.example{path}"))
        if how == "stopped":
            client.job(job).run.stop()
        if how == "deleted":
            client.job(job).delete()
        end = machine.end()
        assert end["status"] == "FAILED", end
        # This server says an error in the place of an output.
        assert error in json.dumps(end), end
    gateway.release(path.split("/")[2])


def test_a_token_that_nobody_waits_with_is_given_up(machines: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = machines
    job = submit(conveyor, "nobody-waits-with-this-token", "/nobody")
    ended = delivery(conveyor, job)
    assert (ended["state"], ended["attempts_made"]) == ("failed", 1), ended
