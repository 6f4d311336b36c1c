"""The public client of the production system, unchanged, against the real binary (SPEC 10)."""

from pathlib import Path

import pytest
import httpx
from conftest import KEYS, WAIT, Conveyor, ScriptedGateway, eventually, http
from zenrows.batch import BatchAPIError, JobStatus, RunPaused, RunStatus, TaskStatus, ZenRowsBatchClient
from zenrows.batch.models import PauseState

UNKNOWN_JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def urls(count: int, path: str = "/page") -> list[str]:
    return [f"https://site.example{path}/{n}" for n in range(count)]


@pytest.fixture
def client(demo: Conveyor) -> ZenRowsBatchClient:
    with demo.client() as client:
        yield client


def refused(call, *args, **kwargs) -> BatchAPIError:
    with pytest.raises(BatchAPIError) as caught:
        call(*args, **kwargs)
    return caught.value


# ----- a closed list -----


def test_a_list_is_worked_to_its_end(demo: Conveyor):
    work_to_the_end(demo)


def test_a_list_is_worked_to_its_end_over_http(over_http: Conveyor):
    work_to_the_end(over_http)


def work_to_the_end(conveyor: Conveyor) -> None:
    with conveyor.client() as client:
        ref = client.submit_regular(urls(100), name="a hundred", external_id="batch-1", metadata={"who": "test"})
        assert ref.accepted_tasks == 100
        assert ref.status is JobStatus.CLOSED
        run = ref.run.wait(**WAIT)
        assert run.status is RunStatus.COMPLETED
        assert (run.stats.total, run.stats.completed, run.stats.successful, run.stats.failed) == (100, 100, 100, 0)
        assert not run.stats.failure_reasons

        results = list(run.results())
        assert [str(r.url) for r in results] == urls(100), "in the order of the list"
        assert len({r.task_id for r in results}) == 100
        assert all(r.status is TaskStatus.SUCCESSFUL and r.result_url and r.type.value == "html" for r in results)
        bodies = run.download_to_memory(concurrency=8)
        assert len(bodies) == 100
        assert all(b.body and b.content_type.startswith("text/html") for b in bodies)


def test_a_job_keeps_what_it_was_given(client: ZenRowsBatchClient):
    ref = client.submit_regular(
        [{"url": "https://site.example/a", "external_id": "row-1", "metadata": {"k": "v"}}],
        name="labelled", external_id="job-1", metadata={"team": "data"}, zenrows_params={"autoparse": True, "wait": 5},
    )
    ref.run.wait(**WAIT)
    job = client.get_job(ref.job_id).data
    assert (job.name, job.external_id, job.metadata) == ("labelled", "job-1", {"team": "data"})
    assert job.zenrows_params == {"autoparse": "true", "wait": "5"}
    assert job.format.value == "json"
    assert job.latest_run.last_batch_received
    assert job.created_at <= job.latest_run.updated_at
    [row] = ref.run.results()
    assert (row.external_id, row.metadata, row.type.value) == ("row-1", {"k": "v"}, "json")


# ----- an open list -----


def test_an_open_job_grows_until_it_is_closed(client: ZenRowsBatchClient):
    ref = client.submit_open()
    assert ref.accepted_tasks == 0
    assert ref.status is JobStatus.OPEN
    added = ref.add_tasks({"tasks": [{"url": u} for u in urls(7)]})
    assert (added.accepted_tasks, added.job_status) == (7, JobStatus.OPEN)
    assert added.latest_run.stats.total == 7
    # Drained but not closed: idle, and still open for more.
    eventually("idle", lambda: ref.run.load().status is RunStatus.PENDING)
    assert ref.add_tasks({"tasks": [{"url": u} for u in urls(3, "/more")]}).latest_run.stats.total == 10
    job = ref.close()
    assert job.status is JobStatus.CLOSED
    run = ref.run.wait(**WAIT)
    assert (run.status, run.stats.successful) == (RunStatus.COMPLETED, 10)
    assert ref.close().status is JobStatus.CLOSED, "closing again changes nothing"


def test_the_last_batch_closes_the_job(client: ZenRowsBatchClient):
    ref = client.submit_open(urls(2))
    added = ref.add_tasks({"tasks": [{"url": "https://site.example/last"}], "last_batch": True})
    assert added.job_status is JobStatus.CLOSED
    assert added.latest_run.last_batch_received
    assert ref.run.wait(**WAIT).stats.successful == 3


def test_an_open_job_without_tasks_can_be_closed(client: ZenRowsBatchClient):
    ref = client.submit_open()
    ref.close()
    run = ref.run.wait(**WAIT)
    assert (run.status, run.stats.total) == (RunStatus.COMPLETED, 0)


# ----- lists of things -----


def test_jobs_and_runs_are_listed_newest_first(demo: Conveyor):
    # The other key: nothing else makes jobs with it on this server.
    with demo.client(KEYS[1]) as client:
        refs = [client.submit_regular(urls(1)) for _ in range(5)]
        opened = client.submit_open()
        expected = [r.job_id for r in [*refs, opened]][::-1]
        assert [job.job_id for job in client.iter_jobs(page_size=2)] == expected
        assert [job.job_id for job in client.iter_jobs(status="open", page_size=1)] == [opened.job_id]
        page = client.list_jobs(limit=4)
        assert (len(page.jobs), bool(page.next_cursor)) == (4, True)

        run_id = refs[0].run.wait(**WAIT).run_id
        assert [r.run_id for r in refs[0].runs()] == [run_id]
        [run] = client.iter_runs(refs[0].job_id, page_size=1)
        assert (run.data.run_sequence, run.data.job_id) == (1, refs[0].job_id)
        assert client.get_run(refs[0].job_id, run_id=run_id).status is RunStatus.COMPLETED
        opened.close()


def test_results_page_through_a_long_list(client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(250))
    run = ref.run.wait(**WAIT)
    assert [str(r.url) for r in run.results()] == urls(250)
    first = client.list_results(ref.job_id)
    assert first.next_cursor
    assert len(first.results) < 250


# ----- downloads -----


def test_bodies_are_downloaded_in_every_way(
    scripted: tuple[Conveyor, ScriptedGateway], tmp_path: Path
):
    with scripted[0].client() as client:
        ref = client.submit_regular(urls(20, "/body"))
        run = ref.run.wait(**WAIT)
        assert ref.run.download_to_dir(tmp_path, concurrency=4) == 20
        assert len(list(tmp_path.glob("*.html"))) == 20
        bodies = {b.task_id: b.body.decode() for b in ref.run.download_to_memory(concurrency=4)}
        assert sorted(bodies.values()) == sorted(urls(20, "/body"))
        for row in run.results():
            assert bodies[row.task_id] == str(row.url)
            assert (tmp_path / f"{row.task_id}.html").read_text() == str(row.url)
        row = next(run.results())
        assert run.download_task_to_memory(row) == str(row.url).encode()
        run.download_task_to_file(row, tmp_path / "one")
        assert (tmp_path / "one").read_text() == str(row.url)


# ----- failures, retries, and what the gateway gets -----


def test_failed_tasks_are_told_apart(scripted: tuple[Conveyor, ScriptedGateway]):
    with scripted[0].client() as client:
        ref = client.submit_regular(urls(3, "/good") + urls(2, "/missing"))
        run = ref.run.wait(**WAIT)
        assert run.status is RunStatus.COMPLETED, "tasks fail; the run does not"
        assert (run.stats.successful, run.stats.failed) == (3, 2)
        assert run.stats.failure_reasons == {"bad_target": 2}
        assert [str(r.url) for r in run.results(status="successful")] == urls(3, "/good")
        failed = list(run.results(status="failed"))
        assert [str(r.url) for r in failed] == urls(2, "/missing")
        assert all(r.error.code == "http_404" and not r.result_url for r in failed)
        assert list(run.results(status="processing")) == []
        assert len(list(run.results(status="all"))) == 5
        skipped = []
        assert len(ref.run.download_to_memory(status="all", on_skip=skipped.append)) == 3
        assert len(skipped) == 2


def test_a_retried_task_has_a_history(scripted: tuple[Conveyor, ScriptedGateway]):
    with scripted[0].client() as client:
        ref = client.submit_regular(["https://site.example/flaky/once"])
        run = ref.run.wait(**WAIT)
        assert run.stats.successful == 1
        [row] = run.results()
        for history in (run.task_history(row.task_id), ref.run.task_history(row.task_id)):
            assert [e.attempt for e in history.events] == [1, 2]
            assert history.events[0].error.status == 503
            assert history.events[1].error is None
            assert all(e.started_at <= e.ended_at for e in history.events)


def test_the_gateway_gets_the_task_as_it_was_given(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(
            [
                {"url": "https://site.example/get?q=a b&c=%26".replace(" ", "%20")},
                {"url": "https://site.example/post", "method": "POST", "body": {"a": [1, None]}},
                {"url": "https://site.example/own", "zenrows_params": {"premium_proxy": False}},
            ],
            zenrows_params={"premium_proxy": True, "custom_headers": {"X-Test": "yes"}},
        )
        assert ref.run.wait(**WAIT).stats.successful == 3
    [got] = gateway.seen("https://site.example/get?q=a%20b&c=%26")
    assert got["method"] == "GET"
    assert got["query"]["apikey"] == KEYS[0]
    assert got["query"]["premium_proxy"] == "true"
    assert (got["query"]["custom_headers"], got["headers"]["x-test"]) == ("true", "yes")
    [post] = gateway.seen("https://site.example/post")
    assert (post["method"], post["body"]) == ("POST", b'{"a":[1,null]}')
    assert post["headers"]["content-type"] == "application/json"
    [own] = gateway.seen("https://site.example/own")
    assert own["query"]["premium_proxy"] == "false", "the task wins"


# ----- pause, resume and limits -----


def patch(conveyor: Conveyor, job: str, **limits: object) -> httpx.Response:
    """The client knows no limits: it is our own addition to the API."""
    return http.patch(f"{conveyor.url}/v1/jobs/{job}", json=limits, headers={"X-API-Key": KEYS[0]})


def test_a_run_is_paused_and_resumed(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_open()
        job = client.job(ref.job_id)
        assert patch(conveyor, ref.job_id, max_inflight=1).status_code == 200
        held, rest = "https://site.example/held/pause/0", urls(5, "/after-pause")
        ref.add_tasks({"tasks": [{"url": held}], "last_batch": False})
        eventually("in flight", lambda: gateway.seen(held))
        ref.add_tasks({"tasks": [{"url": u} for u in rest], "last_batch": True})

        for _ in range(2):
            paused = job.run.pause()
            assert (paused.data.pause_state, paused.status) == (PauseState.PAUSED, RunStatus.RUNNING)
        with pytest.raises(RunPaused) as caught:
            job.run.wait(**WAIT)
        assert caught.value.run.pause_state is PauseState.PAUSED
        gateway.release("pause")
        # What was in flight is done; what was not is not started.
        eventually("settled", lambda: job.run.load().stats.successful == 1)
        # It could have been: jobs that were submitted later are worked to their end meanwhile.
        for _ in range(2):
            assert client.submit_regular(urls(20, "/beside-pause")).run.wait(**WAIT).stats.successful == 20
        assert not any(gateway.seen(url) for url in rest)
        assert job.run.load().stats.completed == 1

        for _ in range(2):
            assert job.run.resume().data.pause_state is None
        run = job.run.wait(**WAIT)
        assert (run.status, run.stats.successful) == (RunStatus.COMPLETED, 6)
        error = refused(job.run.pause)
        assert (error.status_code, error.code) == (409, "run_not_pausable")


def test_limits_are_changed_while_a_job_runs(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_open()
        assert patch(conveyor, ref.job_id, max_inflight=1).json()["max_inflight"] == 1
        held = urls(3, "/held/limits")
        ref.add_tasks({"tasks": [{"url": u} for u in held], "last_batch": True})
        started = lambda: sum(bool(gateway.seen(url)) for url in held)
        eventually("one is in flight", lambda: started() == 1)
        changed = patch(conveyor, ref.job_id, max_inflight=3, retry={"attempts_max": 2})
        assert (changed.status_code, changed.json()["retry"]) == (200, {"attempts_max": 2})
        eventually("all are in flight", lambda: started() == 3)
        gateway.release("limits")
        assert ref.run.wait(**WAIT).stats.successful == 3
        assert client.get_job(ref.job_id).data.latest_run.pause_state is None
    refusal = patch(conveyor, ref.job_id, rate_limit={"per_second": 0})
    assert (refusal.status_code, refusal.json()["code"]) == (400, "invalid_argument")
    assert "rate_limit.per_second" in refusal.json()["detail"]


# ----- stop and delete -----


def test_a_run_is_stopped_while_tasks_are_in_flight(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        held = urls(5, "/held/stop")
        ref = client.submit_regular(held)
        eventually("in flight", lambda: all(gateway.seen(url) for url in held))
        assert len(list(ref.run.results(status="processing"))) == 5
        run = ref.run.stop()
        assert run.status is RunStatus.STOPPED
        assert ref.run.stop().status is RunStatus.STOPPED, "stopping again changes nothing"
        gateway.release("stop")
        # What was in flight may still settle, and is still counted.
        eventually("settled", lambda: ref.run.load().stats.completed == len(list(ref.run.results(status="successful"))))
        assert ref.run.load().status is RunStatus.STOPPED
        assert client.get_job(ref.job_id).status is JobStatus.CLOSED


def test_a_finished_run_cannot_be_stopped(client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(1))
    ref.run.wait(**WAIT)
    error = refused(ref.run.stop)
    assert (error.status_code, error.code) == (409, "run_not_stoppable")


def test_a_deleted_job_goes_away(client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(10))
    ref.run.wait(**WAIT)
    ref.delete()

    def gone() -> bool:
        try:
            assert ref.load().status is JobStatus.DELETED
            return False
        except BatchAPIError as error:
            assert error.code == "not_found"
            return True

    eventually("gone", gone)
    assert ref.job_id not in [job.job_id for job in client.iter_jobs()]


# ----- errors -----


def test_an_unknown_key_is_refused(demo: Conveyor):
    with demo.client("not-a-key-of-this-server") as client:
        error = refused(client.list_jobs)
    assert (error.status_code, error.code) == (401, "unauthenticated")


def test_another_callers_things_are_as_unknown_as_any(demo: Conveyor, client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(1))
    run_id = ref.run.wait(**WAIT).run_id
    [row] = ref.run.results()
    with demo.client(KEYS[1]) as other:
        calls = [
            lambda job: other.get_job(job),
            lambda job: other.get_run(job, run_id=run_id),
            lambda job: other.list_results(job),
            lambda job: other.list_runs(job),
            lambda job: other.job(job).run.task_history(row.task_id),
            lambda job: other.job(job).run.stop(),
            lambda job: other.job(job).run.pause(),
            lambda job: other.job(job).run.resume(),
            lambda job: other.job(job).close(),
            lambda job: other.job(job).delete(),
            lambda job: other.job(job).add_tasks({"tasks": [{"url": "https://site.example/x"}]}),
        ]
        for call in calls:
            theirs, unknown = refused(call, ref.job_id), refused(call, UNKNOWN_JOB)
            assert (theirs.status_code, theirs.code) == (404, "not_found")
            assert theirs.problem.title == unknown.problem.title
            assert theirs.detail == unknown.detail
    assert client.get_job(ref.job_id).status is JobStatus.CLOSED, "and nothing happened to it"


def test_invalid_tasks_are_named_and_nothing_is_accepted(demo: Conveyor):
    with demo.client() as client:
        before = len(list(client.iter_jobs()))
        error = refused(
            client.submit_regular,
            ["https://site.example/ok", "ftp://site.example/file", "https://site.example/" + "x" * 3000],
        )
        assert (error.status_code, error.code) == (400, "invalid_argument")
        invalid = error.problem.extras["invalid_tasks"]
        assert [(t["index"], t["reason"]) for t in invalid] == [(1, "unsupported_scheme"), (2, "url_too_long")]
        assert all(len(t["value"]) <= 200 for t in invalid)
        assert len(list(client.iter_jobs())) == before


def test_a_parameter_that_does_not_exist_is_refused(client: ZenRowsBatchClient):
    error = refused(client.submit_regular, urls(1), zenrows_params={"js_rendr": True})
    assert (error.status_code, error.code) == (400, "invalid_argument")
    assert "js_rendr" in str(error)


def test_a_closed_job_takes_no_more_tasks(client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(1))
    error = refused(ref.add_tasks, {"tasks": [{"url": "https://site.example/late"}]})
    assert (error.status_code, error.code) == (409, "job_not_open")


def test_after_the_last_batch_comes_no_other(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_open()
        ref.add_tasks({"tasks": [{"url": "https://site.example/held/last/0"}], "last_batch": True})
        error = refused(ref.add_tasks, {"tasks": [{"url": "https://site.example/late"}]})
        assert (error.status_code, error.code) == (409, "last_batch_received")
        gateway.release("last")
        assert ref.run.wait(**WAIT).stats.total == 1


def test_a_foreign_cursor_is_refused(demo: Conveyor, client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(150))
    ref.run.wait(**WAIT)
    cursor = client.list_results(ref.job_id).next_cursor
    assert refused(client.list_jobs, cursor=cursor).code == "invalid_cursor"
    assert refused(client.list_results, ref.job_id, cursor=cursor + "x").code == "invalid_cursor"
    assert client.list_results(ref.job_id, cursor=cursor).results
