"""Limits as a user of the client meets them: quotas, request rates, and the client's own limits of a download."""

from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from conftest import KEYS, WAIT, Conveyor, ScriptedGateway, eventually
from zenrows.batch import At, BatchAPIError, DownloadLimitExceeded, Rate


def urls(count: int, path: str = "/limits") -> list[str]:
    return [f"https://site.example{path}/{n}" for n in range(count)]


def refused(call, *args, **kwargs) -> BatchAPIError:
    with pytest.raises(BatchAPIError) as caught:
        call(*args, **kwargs)
    return caught.value


class Answers(list):
    """Every answer that a client gets, those included that it does not show."""

    def options(self) -> dict:
        return {"httpx_args": {"event_hooks": {"response": [self._keep]}}}

    def _keep(self, answer: httpx.Response) -> None:
        answer.read()
        self.append(answer)

    def refusals(self) -> list[httpx.Response]:
        return [answer for answer in self if answer.status_code == 429]


def test_a_quota_is_told_at_once_and_holds_until_a_job_ends(strict: tuple[Conveyor, ScriptedGateway]):
    conveyor, gateway = strict
    answers = Answers()
    with conveyor.client(**answers.options()) as client:
        first = client.submit_regular(urls(1, "/held/quota"))
        # With a key it could be repeated: the client knows that it would be in vain.
        error = refused(client.submit_regular, urls(1), idempotency_key="over-the-quota")
        assert (error.status_code, error.code) == (429, "quota_exceeded")
        assert "active" in error.detail and len(answers.refusals()) == 1
        assert "Retry-After" not in answers.refusals()[0].headers
        with conveyor.client(KEYS[1]) as other:
            assert other.submit_regular(urls(1)).run.wait(**WAIT).stats.successful == 1, "another caller has its own"
        gateway.release("quota")
        first.run.wait(**WAIT)
        assert client.submit_regular(urls(1)).run.wait(**WAIT).stats.successful == 1


def test_a_second_schedule_is_refused_until_the_first_is_deleted(strict: tuple[Conveyor, ScriptedGateway]):
    conveyor, _ = strict
    with conveyor.client() as client:
        once = At((datetime.now() + timedelta(days=400)).replace(microsecond=0), timezone="UTC")
        first = client.submit_scheduled(once, urls(1))
        error = refused(client.submit_scheduled, Rate(every=1, unit="day"), urls(1))
        assert (error.status_code, error.code) == (429, "quota_exceeded")
        assert "scheduled" in error.detail
        assert [job.job_id for job in client.iter_jobs(job_type="scheduled")] == [first.job_id], "nothing was made"
        first.delete()
        second = []

        def accepted() -> bool:
            try:
                second.append(client.submit_scheduled(Rate(every=1, unit="day"), urls(1)))
            except BatchAPIError as again:
                assert again.code == "quota_exceeded", again
            return bool(second)

        eventually("there is room", accepted)
        assert second[0].load().data.schedule.rate.every == 1
        second[0].delete()


def test_the_client_waits_when_it_asks_too_often(tmp_path: Path):
    conveyor = Conveyor(tmp_path, "demo:", "--requests-per-second", "1", "--requests-burst", "1")
    answers = Answers()
    with conveyor.client(**answers.options()) as client:
        # Each of them succeeds, whatever it took.
        eventually("too many", lambda: client.list_jobs(limit=1) and answers.refusals())
    refusal = answers.refusals()[0]
    assert refusal.json()["code"] == "rate_limited" and int(refusal.headers["Retry-After"]) >= 1
    assert answers[-1].status_code == 200, "it was repeated"
    with conveyor.client(retries=0) as hasty:
        errors = []

        def refusal_came() -> bool:
            try:
                hasty.list_jobs(limit=1)
            except BatchAPIError as error:
                errors.append(error)
            return bool(errors)

        eventually("too many", refusal_came)
        assert (errors[0].status_code, errors[0].code) == (429, "rate_limited")
    conveyor.stop()


def test_downloads_end_at_the_clients_own_limits(demo: Conveyor, tmp_path: Path):
    with demo.client() as client:
        ref = client.submit_regular(urls(5))
        ref.run.wait(**WAIT)
        to_memory, to_dir = ref.run.download_to_memory, ref.run.download_to_dir
        size = len(to_memory(max_count=5)[0].body)

        def over(call, *args, **limits) -> DownloadLimitExceeded:
            with pytest.raises(DownloadLimitExceeded) as caught:
                call(*args, **limits)
            [(name, limit)] = limits.items()
            assert (caught.value.limit_name, caught.value.limit) == (name, limit)
            return caught.value

        assert over(to_memory, max_count=4).observed == 5
        assert over(to_memory, max_total_bytes=size).observed > size
        assert over(to_memory, max_bytes_per_file=1).observed == size
        assert over(to_dir, tmp_path / "few", max_files=4).observed == 5
        assert len(list((tmp_path / "few").iterdir())) == 4
        assert over(to_dir, tmp_path / "small", max_bytes_per_file=1).observed > 1
