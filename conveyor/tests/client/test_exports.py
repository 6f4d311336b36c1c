"""Exports with the unchanged client, and files read by Python's own modules."""

import csv
import io
import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from conftest import KEYS, VARIABLES, WAIT, Conveyor, ScriptedGateway, http, program
from zenrows.batch import BatchAPIError

# Rows come in pages of a thousand.
MANY = 1_010


def page(n: int) -> str:
    return f"https://site.example/page/{n}"


def check(path: Path, run) -> None:
    """Every successful task of the run is in the zip, under its id, with the body that the API gives."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        successful = [row for row in run.results() if row.status.value == "successful"]
        assert names == {f"{row.task_id}.{row.type.value}" for row in successful}
        for row in successful:
            body = http.get(str(row.result_url)).content
            assert archive.read(f"{row.task_id}.{row.type.value}") == body


@pytest.fixture(scope="module")
def finished(scripted: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = scripted
    client = conveyor.client()
    urls = [page(n) for n in range(40)] + ["https://site.example/missing"]
    run = client.submit_regular(urls).run.wait(**WAIT)
    assert (run.stats.successful, run.stats.failed) == (40, 1)
    return conveyor, client, run


def test_an_export_is_started_waited_for_and_downloaded(finished, tmp_path: Path) -> None:
    _, client, run = finished
    export = client.start_results_export(run.job_id, run.run_id)
    done = client.wait_for_export(run.job_id, run.run_id, export.export_id, **WAIT)
    assert done.status.value == "completed" and done.error is None
    assert (done.expires_at - done.created_at).total_seconds() == 12 * 3600
    handle = client.get_results_export(run.job_id, run.run_id, export.export_id)
    assert handle.status.value == "completed"
    check(export.download_to_path(tmp_path / "one.zip"), run)
    check(handle.download_to_path(tmp_path / "two.zip"), run)


def test_every_helper_gives_the_same_file(finished, tmp_path: Path) -> None:
    _, client, run = finished
    check(client.download_all_results(run.job_id, run.run_id, tmp_path / "all.zip", poll_interval=0.1), run)
    check(run.start_export().wait(**WAIT).download_to_path(tmp_path / "of_run.zip"), run)
    job = client.job(run.job_id)
    check(job.run.start_export().wait(**WAIT).download_to_path(tmp_path / "of_job.zip"), run)


def test_an_export_that_is_not_there_is_404(finished) -> None:
    conveyor, client, run = finished
    with pytest.raises(BatchAPIError) as error:
        client.get_results_export(run.job_id, run.run_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert (error.value.status_code, error.value.code) == (404, "not_found")
    export = client.start_results_export(run.job_id, run.run_id)
    with pytest.raises(BatchAPIError) as error:
        conveyor.client(KEYS[1]).get_results_export(run.job_id, run.run_id, export.export_id)
    assert error.value.status_code == 404


def test_rows_as_jsonl_and_csv(finished) -> None:
    conveyor, client, run = finished
    texts = {}
    for form in ("jsonl", "csv"):
        base = f"{conveyor.url}/v1/jobs/{run.job_id}/runs/{run.run_id}/exports"
        started = http.post(base, json={"format": form}, headers={"X-API-Key": KEYS[0]})
        assert started.status_code == 202
        done = client.wait_for_export(run.job_id, run.run_id, started.json()["export_id"], **WAIT)
        texts[form] = http.get(str(done.download_url)).text
    lines = [json.loads(line) for line in texts["jsonl"].splitlines()]
    cells = list(csv.DictReader(io.StringIO(texts["csv"], newline="")))
    assert len(lines) == len(cells) == 41
    for line, row in zip(lines, cells, strict=True):
        assert (line["task_id"], line["url"], line["status"]) == (row["task_id"], row["url"], row["status"])
    assert [line["error"]["code"] for line in lines if line["status"] == "failed"] == ["http_404"]


def test_the_command_writes_the_same_file(finished, tmp_path: Path) -> None:
    conveyor, _, run = finished
    out = tmp_path / "cli.zip"
    command = [str(program("conveyor")), "export", run.job_id, "--out", str(out), "--json"]
    command += ["--server", conveyor.url, "--api-key", KEYS[0]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True, env=VARIABLES)
    document = json.loads(done.stdout)
    assert (document["tasks"], document["bytes"]) == (40, out.stat().st_size)
    check(out, run)
    assert list(tmp_path.iterdir()) == [out], "nothing unfinished is left"


def test_a_thousand_bodies_and_more(demo: Conveyor, tmp_path: Path) -> None:
    client = demo.client()
    run = client.submit_regular([page(n) for n in range(MANY)]).run.wait(**WAIT)
    assert run.stats.successful == MANY
    path = client.download_all_results(run.job_id, run.run_id, tmp_path / "many.zip", poll_interval=0.1)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert len(set(archive.namelist())) == MANY
        assert all(one.file_size > 0 for one in archive.infolist())
