"""Large lists with the unchanged client: uploads, the 202, waiting for the ingest, and what may be done meanwhile."""

import io
from collections.abc import Iterator
from pathlib import Path

import aws
import pytest
from conftest import INLINE_TASKS_MAX, KEYS, WAIT, Conveyor, eventually, http, sized
from zenrows.batch import BatchAPIError, IngestStatus, JobStatus, RunStatus, ZenRowsBatchClient
from zenrows.batch._resources import JobRef

LARGE = INLINE_TASKS_MAX + sized(51, 2_001)
# For a server that commits each row by itself: nobody waits until it has read the longer one.
SLOW_INLINE_MAX, SLOW_LARGE, ENDLESS = 20, 25, 100_000


def csv(rows: int, header: bool = True, delimiter: str = ",") -> io.BytesIO:
    lines = [f"row-{n}{delimiter}https://site.example/page/{n}" for n in range(rows)]
    if header:
        lines.insert(0, f"id{delimiter}address")
    return io.BytesIO("\n".join(lines).encode())


@pytest.fixture
def client(demo: Conveyor) -> Iterator[ZenRowsBatchClient]:
    with demo.client() as client:
        yield client


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conveyor]:
    """Reads one list at a time in each process, row by row, so that a list can be met while it is read."""
    flags = ["--inline-tasks-max", str(SLOW_INLINE_MAX), "--chunk-rows", "1", "--ingests-max", "1"]
    conveyor = Conveyor(tmp_path_factory.mktemp("slow"), "demo:", *flags)
    yield conveyor
    conveyor.stop()


def read_now(client: ZenRowsBatchClient) -> JobRef:
    """A job whose list is read at this moment, and will be for long."""
    upload = client.upload_csv(csv(ENDLESS), fields={"url": "address"}, header=True)
    ref = client.submit_regular(file_input_id=upload)
    # Its total is known before a row of it is written.
    eventually("it is read", lambda: ref.run.load().stats.completed > 0)
    assert is_read(ref)
    return ref


def is_read(ref: JobRef) -> bool:
    return ref.run.load().data.ingest_status is IngestStatus.PENDING


def refused(call, *args, **kwargs) -> BatchAPIError:
    with pytest.raises(BatchAPIError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_small_csv_is_written_on_the_request(client: ZenRowsBatchClient):
    upload = client.upload_csv(csv(50), fields={"url": "address", "external_id": "id"}, header=True)
    ref = client.submit_regular(file_input_id=upload)
    assert ref.accepted_tasks == 50
    assert ref.submit_response.latest_run.ingest_status is None, "as with any 201"
    run = ref.run.wait(**WAIT)
    assert (run.status, run.stats.total, run.stats.successful) == (RunStatus.COMPLETED, 50, 50)
    rows = [(row.external_id, str(row.url)) for row in run.results()]
    assert rows == [(f"row-{n}", f"https://site.example/page/{n}") for n in range(50)]


def test_a_large_csv_is_accepted_and_ingested(client: ZenRowsBatchClient, tmp_path: Path):
    path = tmp_path / "list.csv"
    path.write_bytes(csv(LARGE, header=False, delimiter=";").read())
    upload = client.upload_csv(path, fields={"url": 1, "external_id": 0}, delimiter=";")
    ref = client.submit_regular(file_input_id=upload)
    assert ref.submit_response.latest_run.ingest_status is IngestStatus.PENDING
    if not aws.endpoint("dynamodb"):
        # There, it is counted only if that is done in time.
        assert (ref.accepted_tasks, ref.submit_response.latest_run.stats.total) == (LARGE, LARGE)
    job = ref.wait_for_ingest(**WAIT)
    assert job.data.latest_run.ingest_status is IngestStatus.DONE
    assert job.data.latest_run.stats.total == LARGE
    run = ref.run.wait(**WAIT)
    assert (run.status, run.stats.completed) == (RunStatus.COMPLETED, LARGE)
    assert [row.external_id for row in run.results()] == [f"row-{n}" for n in range(LARGE)]


def test_a_long_inline_list_is_staged_by_the_server(client: ZenRowsBatchClient):
    urls = [f"https://site.example/inline/{n}" for n in range(LARGE)]
    ref = client.submit_regular(urls)
    assert (ref.accepted_tasks, ref.submit_response.latest_run.stats.total) == (LARGE, LARGE)
    ref.wait_for_ingest(**WAIT)
    run = ref.run.wait(**WAIT)
    assert (run.status, run.stats.total) == (RunStatus.COMPLETED, LARGE)
    assert [str(row.url) for row in run.results()] == urls


def test_one_invalid_task_in_a_long_inline_list_is_named(demo: Conveyor):
    urls = [{"url": f"https://site.example/inline/{n}"} for n in range(LARGE)]
    # Past the client's own checks: it would refuse the URL before it is sent.
    urls[LARGE - 2] = {"url": "https://site.example/", "external_id": "not allowed"}
    answer = http.post(f"{demo.url}/v1/jobs", json={"tasks": urls}, headers={"X-API-Key": KEYS[0]})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
    assert [(t["index"], t["reason"]) for t in answer.json()["invalid_tasks"]] == [(LARGE - 2, "invalid_external_id")]


def test_an_open_job_takes_tasks_once_its_list_is_in(slow: Conveyor):
    with slow.client() as client:
        # Every process that reads lists has one to read; the next list waits.
        others = [read_now(client) for _ in range(2 if aws.endpoint("dynamodb") else 1)]
        ref = client.submit_open([f"https://site.example/{n}" for n in range(SLOW_LARGE)])
        more = {"tasks": [{"url": "https://site.example/more"}]}
        early = refused(ref.add_tasks, more)
        assert (early.status_code, early.code) == (409, "run_not_terminal")
        again = refused(ref.rerun)
        assert (again.status_code, again.code) == (409, "run_not_terminal")
        assert is_read(ref) and all(map(is_read, others))
        for other in others:
            other.run.stop()
        ref.wait_for_ingest(**WAIT)
        assert ref.add_tasks(more).latest_run.stats.total == SLOW_LARGE + 1
        assert ref.close().status is JobStatus.CLOSED
        assert ref.run.wait(**WAIT).stats.completed == SLOW_LARGE + 1


def test_a_stop_cuts_the_total_to_what_was_written(slow: Conveyor):
    with slow.client() as client:
        ref = read_now(client)
        assert ref.run.stop().status is RunStatus.STOPPED
        run = ref.wait_for_ingest(**WAIT).data.latest_run
        assert (run.status, run.ingest_status) == (RunStatus.STOPPED, IngestStatus.DONE)
        assert 0 < run.stats.total < ENDLESS, "it was stopped while its list was read"
        assert len(list(ref.run.results())) == run.stats.total


def test_a_delete_while_a_list_is_read_leaves_nothing(slow: Conveyor):
    with slow.client() as client:
        ref = read_now(client)
        ref.delete()

        def is_gone() -> bool:
            try:
                return ref.load() is None
            except BatchAPIError as error:
                return (error.status_code, error.code) == (404, "not_found")

        eventually("gone", is_gone)


def test_an_upload_that_is_not_there_says_so(client: ZenRowsBatchClient):
    unknown = refused(client.submit_regular, file_input_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (unknown.status_code, unknown.code) == (404, "file_input_not_found")
    created = client.create_job_input({"type": "csv", "csv": {"fields": {"url": 0}}})
    empty = refused(client.submit_regular, file_input_id=created.file_input_id)
    assert (empty.status_code, empty.code) == (409, "file_input_not_uploaded")


def test_an_open_job_takes_no_upload(client: ZenRowsBatchClient):
    upload = client.upload_csv(csv(3), fields={"url": "address"}, header=True)
    body = {"type": "regular", "status": "open", "file_input_id": upload}
    open_job = refused(client.submit_job, body)
    assert (open_job.status_code, open_job.code) == (409, "file_input_unsupported_for_job_type")
    closed = client.submit_job({**body, "status": "closed"})
    assert closed.run.wait(**WAIT).stats.total == 3, "the upload is as good as before"


def test_another_callers_upload_is_as_unknown_as_any(demo: Conveyor, client: ZenRowsBatchClient):
    upload = client.upload_csv(csv(3), fields={"url": "address"}, header=True)
    with demo.client(KEYS[1]) as other:
        foreign = refused(other.submit_regular, file_input_id=upload)
    assert (foreign.status_code, foreign.code) == (404, "file_input_not_found")


def test_a_column_that_does_not_exist_is_named(client: ZenRowsBatchClient):
    upload = client.upload_csv(csv(3), fields={"url": "link"}, header=True)
    missing = refused(client.submit_regular, file_input_id=upload)
    assert (missing.status_code, missing.code) == (400, "column_not_found")
    assert "link" in missing.problem.detail
