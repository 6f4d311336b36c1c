"""Webhooks as a caller's own programs meet them: set with the public client, verified by the public verifiers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from conftest import KEYS, WAIT, Conveyor, ScriptedGateway, eventually, http
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from zenrows.batch import WEBHOOK_EVENT_ID_HEADER, WEBHOOK_SIGNATURE_HEADER, BatchAPIError, verify_webhook_signature
from zenrows.batch.models import RunStatus, WebhookEvent, WebhookEventType

URLS = ["https://site.example/a", "https://site.example/b"]


class Receiver:
    """Answers what it is told to, then 200, and remembers what it heard."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(receiver._hear({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def _hear(self, headers: dict[str, str], body: bytes) -> int:
        with self._lock:
            self.heard.append((headers, body))
            return self.answers.pop(0) if self.answers else 200

    def of_job(self, job_id: str) -> list[tuple[dict[str, str], bytes]]:
        with self._lock:
            return [(headers, body) for headers, body in self.heard if json.loads(body)["job_id"] == job_id]

    def close(self) -> None:
        self._server.shutdown()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


def refused(call, *args, **kwargs) -> BatchAPIError:
    with pytest.raises(BatchAPIError) as caught:
        call(*args, **kwargs)
    return caught.value


def deliveries(conveyor: Conveyor, job_id: str, path: str = "", method: str = "GET") -> httpx.Response:
    url = f"{conveyor.url}/v1/jobs/{job_id}/deliveries{path}"
    return http.request(method, url, headers={"X-API-Key": KEYS[0]})


def state(conveyor: Conveyor, job_id: str) -> list[str]:
    return [one["state"] for one in deliveries(conveyor, job_id).json()["deliveries"]]


def test_a_signed_delivery_is_verified_by_both_verifiers(demo: Conveyor, receiver: Receiver):
    # Nobody else makes signing keys with this key.
    with demo.client(KEYS[2]) as client:
        assert refused(client.test_webhook, {"url": receiver.url, "signature": True}).code == (
            "webhook_signing_requires_active_key"
        )
        assert refused(client.finalize_hmac_key).code == "no_candidate"
        client.cancel_hmac_rotation()
        key = client.rotate_hmac_key()
        assert client.list_hmac_keys().active.kid == key.kid, "the first key is active at once"

        ref = client.submit_regular(
            URLS, webhook={"url": receiver.url, "signature": True}, external_id="mine", metadata={"k": "v"}
        )
        ref.run.wait(**WAIT)
        eventually("told", lambda: receiver.of_job(ref.job_id))
        headers, body = receiver.of_job(ref.job_id)[0]
        signature = headers[WEBHOOK_SIGNATURE_HEADER.lower()]
        assert verify_webhook_signature(body, signature, {key.kid: key.secret})
        assert not verify_webhook_signature(body + b" ", signature, {key.kid: key.secret})
        verifier = Webhook(key.secret)
        assert verifier.verify(body, headers)
        with pytest.raises(WebhookVerificationError):
            verifier.verify(body + b" ", headers)

        event = WebhookEvent.model_validate_json(body)
        assert event.event_type is WebhookEventType.RUN_COMPLETED
        assert (event.job_id, event.external_id, event.metadata) == (ref.job_id, "mine", {"k": "v"})
        assert (event.stats.total, event.stats.completed, event.stats.successful) == (2, 2, 2)
        assert headers[WEBHOOK_EVENT_ID_HEADER.lower()] == headers["webhook-id"] == event.event_id

        # While keys rotate, the old one signs until the new one is finalized.
        other = client.rotate_hmac_key()
        assert refused(client.rotate_hmac_key).code == "candidate_pending"
        assert client.test_webhook({"url": receiver.url, "signature": True}).delivered
        headers, body = receiver.heard[-1]
        assert verify_webhook_signature(body, headers["x-signature"], {key.kid: key.secret, other.kid: other.secret})
        assert f"kid={key.kid}" in headers["x-signature"]
        client.cancel_hmac_rotation()
        assert client.list_hmac_keys().candidate is None
        client.cancel_hmac_rotation()
        assert client.list_hmac_keys().active.kid == key.kid


def test_a_delivery_without_a_signature_has_none(demo: Conveyor, receiver: Receiver):
    with demo.client() as client:
        ref = client.submit_regular(URLS, webhook={"url": receiver.url})
        ref.run.wait(**WAIT)
        eventually("told", lambda: receiver.of_job(ref.job_id))
        headers, _ = receiver.of_job(ref.job_id)[0]
        assert "x-signature" not in headers and "webhook-signature" not in headers
        assert headers["x-zenrows-event-id"]


def test_a_run_that_failed_says_why(scripted: tuple[Conveyor, ScriptedGateway], receiver: Receiver):
    with scripted[0].client() as client:
        ref = client.submit_regular(["https://site.example/unpaid/told"], webhook={"url": receiver.url}, external_id="mine")
        run = ref.run.wait(**WAIT)
        assert run.status is RunStatus.FAILED
        eventually("told", lambda: receiver.of_job(ref.job_id))
        event = WebhookEvent.model_validate_json(receiver.of_job(ref.job_id)[0][1])
        assert event.event_type is WebhookEventType.RUN_FAILED
        assert (event.job_id, event.run_id, event.external_id) == (ref.job_id, run.run_id, "mine")
        assert event.failure_reason.value == run.data.failure_reason.value == "api_key_cap_reached"
        assert event.failure_detail == run.data.failure_detail == "The daily cap is reached."
        assert (event.stats.total, event.stats.completed) == (1, 0)
        eventually("delivered", lambda: state(scripted[0], ref.job_id) == ["delivered"])
        assert len(receiver.of_job(ref.job_id)) == 1


def test_a_failure_is_tried_again_and_can_be_replayed(demo: Conveyor, receiver: Receiver):
    with demo.client() as client:
        receiver.answers = [500]
        ref = client.submit_regular(URLS, webhook={"url": receiver.url})
        ref.run.wait(**WAIT)
        eventually("delivered", lambda: state(demo, ref.job_id) == ["delivered"])
        (delivery,) = deliveries(demo, ref.job_id).json()["deliveries"]
        assert [attempt.get("error") for attempt in delivery["attempts"]] == ["http_5xx:500", None]
        event = delivery["event_id"]
        assert deliveries(demo, ref.job_id, f"/{event}/replay", "POST").status_code == 202
        eventually("told again", lambda: len(receiver.of_job(ref.job_id)) == 3)
        heard = receiver.of_job(ref.job_id)
        assert {headers["webhook-id"] for headers, _ in heard} == {event}
        assert len({body for _, body in heard}) == 1


def test_gone_disables_the_webhook(demo: Conveyor, receiver: Receiver):
    with demo.client() as client:
        receiver.answers = [410]
        ref = client.submit_regular(URLS, webhook={"url": receiver.url})
        ref.run.wait(**WAIT)
        eventually("given up", lambda: state(demo, ref.job_id) == ["failed"])
        shown = http.get(f"{demo.url}/v1/jobs/{ref.job_id}/webhook", headers={"X-API-Key": KEYS[0]}).json()
        assert "410" in shown["disabled"]["reason"]


def test_a_webhook_is_set_and_taken_away(demo: Conveyor, receiver: Receiver):
    with demo.client() as client:
        ref = client.submit_open(URLS)
        assert refused(ref.get_webhook).status_code == 404
        assert str(ref.set_webhook(receiver.url, signature=False).url) == receiver.url
        assert ref.get_webhook().signature is False
        assert str(client.get_job(ref.job_id).data.webhook.url) == receiver.url
        ref.delete_webhook()
        ref.delete_webhook()
        ref.close()
        ref.run.wait(**WAIT)
        assert deliveries(demo, ref.job_id).json()["deliveries"] == []


def test_urls_are_judged_by_the_documented_codes(strict: tuple[Conveyor, ScriptedGateway]):
    with strict[0].client() as client:
        submit = lambda url: refused(client.submit_regular, URLS, webhook={"url": url}).code
        assert submit("http://127.0.0.1:1/") == "callback_url_must_be_https"
        assert submit("https://127.0.0.1:1/") == "callback_address_not_allowed"
        # No resolver is asked for a label of more than 63 characters: the answer is the same without a network.
        assert submit(f"https://{'x' * 64}.example/") == "callback_url_unresolvable"


def test_only_loopback_is_allowed_for_development(demo: Conveyor):
    with demo.client() as client:
        submit = lambda url: refused(client.submit_regular, URLS, webhook={"url": url}).code
        assert submit("http://10.0.0.1/") == "callback_url_must_be_https"
        assert submit("https://10.0.0.1/") == "callback_address_not_allowed"


def test_a_test_reports_what_came_of_it(demo: Conveyor, receiver: Receiver):
    with demo.client() as client:
        good = client.test_webhook({"url": receiver.url})
        assert (good.delivered, good.status_code, good.error) == (True, 200, None)
        assert WebhookEvent.model_validate_json(receiver.heard[-1][1]).event_type is WebhookEventType.WEBHOOK_TEST
        receiver.answers = [503]
        bad = client.test_webhook({"url": receiver.url})
        assert (bad.delivered, bad.status_code, bad.error) == (False, 503, "http_5xx:503")
        assert bad.event_id != good.event_id
        nobody = client.test_webhook({"url": "http://127.0.0.1:1/"})
        assert not nobody.delivered and nobody.error.startswith("transport_error:")
