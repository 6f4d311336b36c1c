"""Every public method of the production system's client, its handles and its errors, against the real binary.

What was called is recorded; the last test fails if a public method of the client was never called with success.
"""

import functools
import io
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import FunctionType

import pytest
from conftest import KEYS, WAIT, Conveyor, Receiver, ScriptedGateway, eventually
from zenrows.batch import (
    At,
    BatchAPIError,
    Calendar,
    Daily,
    Monthly,
    Rate,
    RunPaused,
    RunStatus,
    TaskStatus,
    WaiterError,
    WaiterTimeout,
    Weekly,
    ZenRowsBatchClient,
    verify_webhook_signature,
)
from zenrows.batch import _resources as resources
from zenrows.batch.errors import BatchErrorCode

HANDLES = [
    ZenRowsBatchClient,
    resources.JobRef,
    resources.JobHandle,
    resources.RunRef,
    resources.RunHandle,
    resources.CurrentRun,
    resources.ScheduleControls,
    resources.ExportRef,
    resources.ExportHandle,
]
CALLED: set[str] = set()


def public_methods() -> set[str]:
    """Of each class its own methods; what a handle inherits counts where it is defined."""
    return {
        f"{cls.__name__}.{name}"
        for cls in HANDLES
        for name, value in vars(cls).items()
        if isinstance(value, FunctionType) and not name.startswith("_")
    }


@pytest.fixture(scope="module", autouse=True)
def recorder() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    for cls in HANDLES:
        for name, method in list(vars(cls).items()):
            if not isinstance(method, FunctionType) or name.startswith("_"):
                continue

            def recorded(method: FunctionType, label: str):
                @functools.wraps(method)
                def call(*args, **kwargs):
                    result = method(*args, **kwargs)
                    CALLED.add(label)
                    return result

                return call

            patch.setattr(cls, name, recorded(method, f"{cls.__name__}.{name}"))
    yield
    patch.undo()


def urls(count: int, path: str = "/every") -> list[str]:
    return [f"https://site.example{path}/{n}" for n in range(count)]


@pytest.fixture
def client(demo: Conveyor) -> Iterator[ZenRowsBatchClient]:
    with demo.client() as client:
        yield client


def refused(code: str, call, *args, **kwargs) -> BatchAPIError:
    with pytest.raises(BatchAPIError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code, caught.value
    assert code in set(BatchErrorCode), "the client knows it"
    return caught.value


# ----- jobs, runs, results, files -----


def test_jobs_are_submitted_listed_and_read(client: ZenRowsBatchClient):
    assert client.base_url.rstrip("/").endswith("/v1")
    ref = client.submit_job({"type": "regular", "tasks": [{"url": u} for u in urls(3)]})
    run = client.wait_for_run(ref.job_id, **WAIT)
    assert run.status is RunStatus.COMPLETED
    assert client.job(ref.job_id).load().data.job_id == ref.job_id
    assert client.get_job(ref.job_id).data.latest_run.run_id == run.run_id
    assert any(job.job_id == ref.job_id for job in client.list_jobs(limit=10).jobs)
    assert any(job.job_id == ref.job_id for job in client.iter_jobs(page_size=5, job_type="regular"))
    assert client.get_run(ref.job_id, run_id=run.run_id).status is RunStatus.COMPLETED
    assert client.run(ref.job_id, run.run_id).load().stats.total == 3
    assert [r.run_id for r in client.list_runs(ref.job_id).runs] == [run.run_id]
    assert [r.run_id for r in client.iter_runs(ref.job_id)] == [run.run_id]
    assert [r.run_id for r in ref.runs()] == [run.run_id]
    assert len(client.list_results(ref.job_id).results) == 3
    assert len(list(client.iter_results(ref.job_id, run_id=run.run_id, status="successful"))) == 3
    estimate = client.estimate_cost({"type": "regular", "tasks": [{"url": u} for u in urls(3)]})
    assert estimate.min > 0


def test_an_open_job_takes_batches_and_is_closed(client: ZenRowsBatchClient):
    ref = client.submit_open(urls(1))
    ref.add_tasks({"tasks": [{"url": u} for u in urls(2, "/more")]}, idempotency_key="one-batch")
    again = ref.add_tasks({"tasks": [{"url": u} for u in urls(2, "/more")]}, idempotency_key="one-batch")
    assert again.accepted_tasks == 2
    assert ref.close().data.latest_run.last_batch_received
    run = ref.run.wait(**WAIT)
    assert run.stats.total == 3, "the repeated batch counted once"


def test_files_are_uploaded_and_run(client: ZenRowsBatchClient, tmp_path: Path):
    slot = client.create_job_input({"type": "csv", "csv": {"fields": {"url": 0}}})
    refused("file_input_not_uploaded", client.submit_regular, file_input_id=slot.file_input_id)
    listed = tmp_path / "list.csv"
    listed.write_text("id,link\n" + "".join(f"r{n},https://site.example/file/{n}\n" for n in range(4)))
    upload = client.upload_csv(listed, fields={"url": "link", "external_id": "id"}, header=True)
    ref = client.submit_regular(file_input_id=upload, wait_for_ingest=True)
    ref.wait_for_ingest()
    run = ref.run.wait(**WAIT)
    assert [r.external_id for r in run.results()] == ["r0", "r1", "r2", "r3"]
    other = ref.add_file_input(io.BytesIO(b"https://site.example/x\n"), fields={"url": 0})
    assert client.submit_regular(file_input_id=other).run.wait(**WAIT).stats.total == 1


def test_the_current_run_is_read_paused_and_stopped(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(urls(2, "/held/every"))
        current = ref.run
        assert current.load().status is RunStatus.RUNNING
        assert current.pause().data.pause_state.value == "paused"
        with pytest.raises(RunPaused):
            current.wait(**WAIT)
        current.resume()
        with pytest.raises(WaiterTimeout):
            current.wait(poll_interval=0.05, timeout=0.2)
        with pytest.raises(WaiterError):
            current.wait(failure_statuses={"running"}, **WAIT)
        assert current.stop().status is RunStatus.STOPPED
        gateway.release("every")
        other = client.submit_regular(urls(1))
        other.run.wait(**WAIT)
        refused("run_not_stoppable", other.run.cancel)
        third = client.submit_regular(urls(1, "/held/cancel"))
        assert third.run.cancel().status is RunStatus.STOPPED
        gateway.release("cancel")


def test_bodies_and_histories(client: ZenRowsBatchClient, tmp_path: Path):
    ref = client.submit_regular(urls(3))
    run = ref.run.wait(**WAIT)
    current, specific = ref.run, client.run(ref.job_id, run.run_id)
    rows = list(current.results(status="successful"))
    assert [r.task_id for r in specific.results()] == [r.task_id for r in rows]
    assert current.task_history(rows[0].task_id).events[0].attempt == 1
    assert specific.task_history(rows[0].task_id).events[0].attempt == 1
    assert current.download_to_dir(tmp_path / "a", concurrency=2) == 3
    assert specific.download_to_dir(tmp_path / "b", use_external_id=True) == 3
    assert len(current.download_to_memory(concurrency=2)) == len(specific.download_to_memory()) == 3
    for facet, name in [(current, "one"), (specific, "two")]:
        facet.download_task_to_file(rows[0], tmp_path / name)
        assert (tmp_path / name).read_bytes() == facet.download_task_to_memory(rows[0])
    assert specific.wait(**WAIT).status is RunStatus.COMPLETED


def test_what_is_deleted_is_gone(client: ZenRowsBatchClient):
    ref = client.submit_regular(urls(1))
    run = ref.run.wait(**WAIT)
    client.run(ref.job_id, run.run_id).delete()
    refused("no_prior_run", ref.rerun)
    ref.delete()
    eventually("deleted", lambda: is_gone(client, ref.job_id))


def is_gone(client: ZenRowsBatchClient, job: str) -> bool:
    try:
        client.get_job(job)
    except BatchAPIError as error:
        return error.status_code == 404
    return False


# ----- reruns -----


def test_runs_are_repeated_whole_and_in_part(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(urls(3) + urls(2, "/missing"))
        first = ref.run.wait(**WAIT)
        assert (first.stats.successful, first.stats.failed) == (3, 2)
        whole = ref.rerun(wait_for_ingest=True)
        whole = whole.wait(**WAIT)
        assert (whole.stats.total, whole.data.run_sequence) == (5, 2)
        ids = [r.task_id for r in first.results()]
        assert [r.task_id for r in whole.results()] == ids
        part = ref.retry_failed(idempotency_key="retry-1")
        assert ref.retry_failed(idempotency_key="retry-1").run_id == part.run_id
        part = part.wait(**WAIT)
        assert (part.stats.total, part.stats.successful, part.stats.failed) == (5, 3, 2)
        kept = [r for r in part.results() if r.source_run_id]
        assert {r.source_run_id for r in kept} == {whole.run_id} and len(kept) == 3
        assert all(r.status is TaskStatus.SUCCESSFUL for r in kept)
        assert len(part.download_to_memory()) == 3
        chained = ref.rerun(status=["failed"]).wait(**WAIT)
        assert {r.source_run_id for r in chained.results() if r.source_run_id} == {whole.run_id}
        refused("run_has_descendants", client.run(ref.job_id, whole.run_id).delete)
        refused("no_matching_tasks", ref.rerun, status="pending")


def test_a_run_that_lives_is_not_repeated(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = scripted
    with conveyor.client() as client:
        ref = client.submit_regular(urls(1, "/held/repeat"))
        refused("run_not_terminal", ref.rerun)
        gateway.release("repeat")
        assert ref.run.wait(**WAIT).status is RunStatus.COMPLETED


# ----- idempotency -----


def test_a_repeated_submit_is_the_same_job(client: ZenRowsBatchClient):
    first = client.submit_regular(urls(2), idempotency_key="every-1")
    again = client.submit_regular(urls(2), idempotency_key="every-1")
    assert first.job_id == again.job_id
    refused("idempotency_key_conflict", client.submit_regular, urls(3), idempotency_key="every-1")


# ----- exports -----


def test_results_are_exported_as_a_zip(client: ZenRowsBatchClient, tmp_path: Path):
    ref = client.submit_regular(urls(5))
    run = ref.run.wait(**WAIT)
    names = {f"{r.task_id}.html" for r in run.results()}

    def holds(path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert set(archive.namelist()) == names

    export = client.start_results_export(ref.job_id, run.run_id)
    done = client.wait_for_export(ref.job_id, run.run_id, export.export_id, **WAIT)
    assert done.status.value == "completed" and done.download_url
    assert client.get_results_export(ref.job_id, run.run_id, export.export_id).status.value == "completed"
    holds(client.download_all_results(ref.job_id, run.run_id, tmp_path / "a.zip", poll_interval=0.1))
    handle = run.start_export().wait(**WAIT)
    holds(run.export(handle.export_id).download_to_path(tmp_path / "b.zip"))
    assert run.export(handle.export_id).load().status.value == "completed"
    assert ref.run.start_export().wait(**WAIT).status.value == "completed"
    holds(ref.run.download_all_results(tmp_path / "c.zip", poll_interval=0.1))
    holds(run.download_all_results(tmp_path / "d.zip", poll_interval=0.1))
    refused("not_found", client.get_results_export, ref.job_id, run.run_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV")


# ----- schedules -----


def test_schedules_fire_are_paused_and_changed(client: ZenRowsBatchClient):
    soon = datetime.now() + timedelta(days=400)
    once = client.submit_scheduled(At(soon.replace(microsecond=0), timezone="Europe/Berlin"), urls(1))
    assert once.load().data.next_scheduled_run is not None
    every = client.submit_scheduled(Rate(every=1, unit="minute"), urls(2), name="poll")
    job = every.load().data
    assert job.type.value == "scheduled" and job.latest_run is None and job.schedule.rate.every == 1
    refused("no_prior_run", every.rerun, status="failed")
    refused("job_not_open", every.add_tasks, {"tasks": [{"url": urls(1)[0]}]})
    fired = every.rerun().wait(**WAIT)
    assert (fired.status, fired.stats.total) == (RunStatus.COMPLETED, 2)
    assert every.schedule.pause().data.schedule_state.value == "paused"
    assert every.schedule.resume().data.schedule_state.value == "active"
    daily = Calendar(times_of_day=["09:00", "18:00"], cadence=Daily(), timezone="America/New_York")
    changed = every.schedule.update(daily).data
    assert changed.schedule.calendar.times_of_day[0].root == "09:00"
    for cadence in (Weekly(days=["mon", "fri"]), Monthly(days=[1, 31])):
        every.schedule.update(Calendar(times_of_day=["00:00"], cadence=cadence, timezone="UTC"))
    assert any(job.job_id == every.job_id for job in client.iter_jobs(job_type="scheduled"))
    for ref in (once, every):
        ref.delete()


def scheduled_soon(client: ZenRowsBatchClient) -> resources.JobRef | None:
    """A schedule that fires in one to two seconds; `None` if that time had passed when the request arrived."""
    soon = (datetime.now(timezone.utc) + timedelta(seconds=2)).replace(microsecond=0, tzinfo=None)
    try:
        return client.submit_scheduled(At(soon, timezone="UTC"), urls(1))
    except BatchAPIError as error:
        if "its time has passed" not in str(error):
            raise
        return None


def test_a_schedule_makes_one_run_by_itself(client: ZenRowsBatchClient):
    once = eventually("a time that has not passed on arrival", lambda: scheduled_soon(client))
    run = client.wait_for_run(once.job_id, max_poll_interval=0.5, **WAIT)
    assert (run.status, run.trigger.value, run.stats.successful) == (RunStatus.COMPLETED, "scheduled", 1)
    assert once.load().data.next_scheduled_run is None, "nothing is left to fire"
    once.delete()


@pytest.mark.last
def test_a_schedule_makes_runs_every_minute(demo: Conveyor, every_minute: resources.JobRef):
    with demo.client(KEYS[2]) as client:
        run = client.wait_for_run(every_minute.job_id, max_poll_interval=0.5, **WAIT)
        assert (run.trigger.value, run.stats.total) == ("scheduled", 1)
        job = every_minute.load().data
        assert job.next_scheduled_run > run.created_at, "it fires again"
    every_minute.delete()


# ----- webhooks -----


def test_webhooks_are_configured_tested_and_delivered(client: ZenRowsBatchClient, receiver: Receiver):
    url = receiver.url("/hook")
    keys = client.list_hmac_keys()
    client.cancel_hmac_rotation()
    refused("no_candidate", client.finalize_hmac_key)
    if not keys.active:
        client.rotate_hmac_key()
    created = client.rotate_hmac_key()
    refused("candidate_pending", client.rotate_hmac_key)
    assert client.finalize_hmac_key().active_kid == created.kid
    client.rotate_hmac_key()
    client.cancel_hmac_rotation()
    assert client.list_hmac_keys().active.kid == created.kid
    tested = client.test_webhook({"url": url, "signature": True})
    assert tested.delivered and tested.status_code == 200

    ref = client.submit_regular(urls(1), webhook={"url": url, "signature": True})
    run = ref.run.wait(**WAIT)
    seen = receiver.wait_for(lambda got: got["json"].get("run_id") == run.run_id)
    assert seen["json"]["event_type"] == "run.completed"
    secrets = {created.kid: created.secret}
    assert verify_webhook_signature(seen["body"], seen["headers"]["X-Signature"], secrets)
    assert not verify_webhook_signature(seen["body"] + b" ", seen["headers"]["X-Signature"], secrets)
    assert ref.get_webhook().signature is True
    assert client.get_job_webhook(ref.job_id).signature is True
    assert str(ref.set_webhook(receiver.url("/other"), signature=False).url).endswith("/other")
    assert client.put_job_webhook(ref.job_id, {"url": url, "signature": False}).signature is False
    ref.delete_webhook()
    client.delete_job_webhook(ref.job_id)
    refused("not_found", ref.get_webhook)
    refused("callback_url_must_be_https", ref.set_webhook, "http://site.example/x", signature=False)


# ----- errors -----


def test_errors_have_their_class_and_code(demo: Conveyor, client: ZenRowsBatchClient):
    error = refused("not_found", client.get_job, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert error.problem.type and error.problem.title and error.status_code == 404
    with demo.client("x" * 20) as stranger:
        refused("unauthenticated", stranger.list_jobs)
        stranger.close()
    error = refused("invalid_argument", client.submit_regular, ["ftp://site.example/"])
    assert error.problem.extras["invalid_tasks"][0]["reason"] == "unsupported_scheme"
    refused("job_not_open", client.submit_regular(urls(1)).add_tasks, {"tasks": [{"url": urls(1)[0]}]})


def test_every_public_method_was_called():
    missing = public_methods() - CALLED
    assert not missing, f"never called with success: {sorted(missing)}"
