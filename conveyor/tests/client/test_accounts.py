"""What the gateway says about money, as a user of the client sees it: runs that fail with the account, spend; and runs that pause
because too much of them fails."""

import pytest
from conftest import KEYS, WAIT, Conveyor, ScriptedGateway, eventually, http
from zenrows.batch import RunPaused, RunStatus, TaskStatus, WaiterError
from zenrows.batch.models import FailureReason, PauseState

KEY = {"X-API-Key": KEYS[0]}


def urls(count: int, path: str) -> list[str]:
    return [f"https://site.example{path}/{n}" for n in range(count)]


def test_a_run_fails_with_the_account_and_goes_on_once_it_is_paid(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(urls(3, "/unpaid/account"))
        failed = ref.run.wait(**WAIT)
        assert failed.status is RunStatus.FAILED
        assert failed.data.failure_reason is FailureReason.API_KEY_CAP_REACHED
        assert failed.data.failure_detail == "The daily cap is reached."
        with pytest.raises(WaiterError):
            ref.run.wait(failure_statuses={"failed"}, target_statuses={"completed"}, **WAIT)
        # Nobody's attempt was burnt.
        assert (failed.stats.completed, failed.stats.failed) == (0, 0)
        assert {row.status for row in failed.results()} <= {TaskStatus.PENDING, TaskStatus.PROCESSING}
        gateway.release("account")
        again = ref.retry_failed(include_pending=True).wait(**WAIT)
        assert (again.status, again.stats.successful) == (RunStatus.COMPLETED, 3)
        assert again.data.failure_reason is None and again.data.failure_detail is None


def test_a_run_says_what_it_cost(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(urls(4, "/charged") + urls(2, "/missing"))
        run = ref.run.wait(**WAIT)
        assert (run.stats.successful, run.stats.failed) == (4, 2)
        assert (run.stats.spend.credits, run.stats.spend.cost) == (4 * gateway.CREDITS, 4 * gateway.COST)
        rows = list(run.results())
        [event] = run.task_history(rows[0].task_id).events
        assert (event.spend.credits, event.spend.cost) == (gateway.CREDITS, gateway.COST)
        [free] = run.task_history(rows[4].task_id).events
        assert free.spend is None
        # What is handed down was paid for before.
        part = ref.retry_failed().wait(**WAIT)
        assert (part.stats.total, part.stats.spend) == (6, None)
        whole = ref.rerun().wait(**WAIT)
        assert whole.stats.spend.credits == 4 * gateway.CREDITS


def test_a_run_that_fails_too_much_pauses_and_says_why(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = scripted
    with conveyor.client() as client:
        ref = client.submit_open()
        # Neither the limit nor the reason is known to the client.
        limit = {"max_failure_ratio": 0.5}
        assert http.patch(f"{conveyor.url}/v1/jobs/{ref.job_id}", json=limit, headers=KEY).status_code == 200
        # Fewer are left after the pause than it takes to pause once more.
        ref.add_tasks({"tasks": [{"url": url} for url in urls(30, "/missing/ratio")]})
        eventually("paused", lambda: ref.run.load().data.pause_state is PauseState.PAUSED)
        with pytest.raises(RunPaused) as caught:
            ref.run.wait(**WAIT)
        run = caught.value.run
        assert run.stats.failed >= 20
        said = http.get(f"{conveyor.url}/v1/jobs/{ref.job_id}/runs/{run.run_id}", headers=KEY).json()
        assert said["pause_reason"]["code"] == "failure_ratio" and said["pause_reason"]["detail"]
        assert ref.run.resume().data.pause_state is None
        said = http.get(f"{conveyor.url}/v1/jobs/{ref.job_id}/runs/{run.run_id}", headers=KEY).json()
        assert "pause_reason" not in said
        ref.close()
        assert ref.run.wait(**WAIT).stats.failed == 30
        # Somebody's own pause has no reason.
        other = client.submit_open()
        paused = http.post(f"{conveyor.url}/v1/jobs/{other.job_id}/pause", headers=KEY).json()
        assert paused["pause_state"] == "paused" and "pause_reason" not in paused
        other.run.stop()
