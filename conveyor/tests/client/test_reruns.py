"""Reruns of more tasks than are written on a request (202): whole, of what failed, and by the class of the failure."""

from collections import Counter

import httpx
import pytest
from conftest import INLINE_TASKS_MAX, KEYS, WAIT, Conveyor, http
from zenrows.batch import BatchAPIError, IngestStatus, RunStatus, TaskStatus

EACH = 10
PERIOD = INLINE_TASKS_MAX // EACH + 1
ROWS = EACH * PERIOD + 1
# Of every so many rows one is of each of these; what is flaky fails once.
KINDS = {1: "/status/404", 2: "/status/401", 3: "/flaky/1"}


def url(n: int) -> str:
    return f"https://site.example{KINDS.get(n % PERIOD, '/page')}?n={n}"


def rerun(conveyor: Conveyor, job_id: str, **filters: str) -> httpx.Response:
    """The client knows no filter but the status."""
    where = f"{conveyor.url}/v1/jobs/{job_id}/rerun"
    return http.post(where, params=filters, headers={"X-API-Key": KEYS[0]})


def check(run, failures: dict[str, int], sources: dict[str | None, int], ids: list[str]) -> list:
    """That everything that is said about a run adds up. Gives its rows."""
    failed = sum(failures.values())
    stats = run.stats
    assert run.status is RunStatus.COMPLETED
    assert (stats.total, stats.completed, stats.successful, stats.failed) == (ROWS, ROWS, ROWS - failed, failed)
    assert stats.failure_reasons == failures
    rows = list(run.results())
    assert [row.task_id for row in rows] == ids and [str(row.url) for row in rows] == [url(n) for n in range(ROWS)]
    assert Counter(row.source_run_id for row in rows) == sources
    assert Counter(row.status for row in rows) == {TaskStatus.SUCCESSFUL: ROWS - failed, TaskStatus.FAILED: failed}
    assert {row.run_id for row in rows} == {run.run_id}
    return rows


def test_a_long_run_is_repeated_in_part_and_whole(over_http: Conveyor):
    with over_http.client() as client:
        ref = client.submit_regular([url(n) for n in range(ROWS)], wait_for_ingest=True)
        first = ref.run.wait(**WAIT)
        ids = [row.task_id for row in first.results()]
        check(first, {"bad_target": EACH, "auth_failed": EACH, "gateway_error": EACH}, {None: ROWS}, ids)

        # What failed: a third of it works now.
        accepted = ref.retry_failed(idempotency_key="long-retry")
        assert accepted.data.ingest_status is IngestStatus.PENDING, "202"
        assert ref.retry_failed(idempotency_key="long-retry").run_id == accepted.run_id
        second = accepted.wait(**WAIT)
        assert second.data.ingest_status is IngestStatus.DONE
        failures = {"bad_target": EACH, "auth_failed": EACH}
        rows = check(second, failures, {first.run_id: ROWS - 3 * EACH, None: 3 * EACH}, ids)
        redone = [row for row in rows if not row.source_run_id]
        assert {str(row.url) for row in redone} == {url(n) for n in range(ROWS) if n % PERIOD in KINDS}

        # By class, of the run that has most of its rows from another.
        assert rerun(over_http, ref.job_id, error_class="timeout").json()["code"] == "no_matching_tasks"
        answer = rerun(over_http, ref.job_id, error_class="auth_failed")
        said = answer.json()
        assert answer.status_code == 202, answer.text
        run_id = said["latest_run"]["run_id"]
        assert answer.headers["Location"].endswith(f"/v1/jobs/{ref.job_id}/runs/{run_id}") and answer.headers["Retry-After"]
        assert (said["rerun_of"], said["retried_tasks"], said["inherited_tasks"]) == (second.run_id, EACH, ROWS - EACH)
        third = client.run(ref.job_id, run_id).wait(**WAIT)
        handed_down = {first.run_id: ROWS - 3 * EACH, second.run_id: 2 * EACH, None: EACH}
        rows = check(third, failures, handed_down, ids)
        assert {str(row.url) for row in rows if not row.source_run_id} == {url(n) for n in range(2, ROWS, PERIOD)}
        readable(client, ref.job_id, run_id, rows)
        with pytest.raises(BatchAPIError) as caught:
            client.run(ref.job_id, first.run_id).delete()
        assert caught.value.code == "run_has_descendants"

        # All of them.
        whole = ref.rerun(wait_for_ingest=True)
        assert whole.data.ingest_status is IngestStatus.DONE
        whole = whole.wait(**WAIT)
        assert whole.data.run_sequence == 4
        check(whole, failures, {None: ROWS}, ids)


def readable(client, job_id: str, run_id: str, rows: list) -> None:
    """Bodies and histories of rows that were handed down, through one run and through two."""
    run = client.run(job_id, run_id)
    for n in (0, 3, (EACH - 1) * PERIOD + 3, ROWS - 1):
        assert rows[n].source_run_id and run.download_task_to_memory(rows[n])
        [event] = run.task_history(rows[n].task_id).events
        assert event.error is None
    [event] = run.task_history(rows[1].task_id).events
    assert event.error.status == rows[1].error.status == 404
