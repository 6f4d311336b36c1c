// The Node client from npm, unchanged, against the real binary (SPEC 10). `test_node_client.py` starts this file with node's own
// test runner and says where the servers are.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

const { NODE_CLIENT, CONVEYOR_URL, CONVEYOR_DEMO_URL, GATEWAY_URL, API_KEY, INLINE_TASKS_MAX, FOLDER } = process.env;
const zenrows = createRequire(join(NODE_CLIENT, "/"))("zenrows");
const { At, Calendar, Daily, Monthly, Rate, Weekly, ZenRowsBatchClient, ZenRowsBatchError } = zenrows;

const WAIT = { pollInterval: 0.1, maxPollInterval: 0.5, timeout: 240 };
const UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

/** With a gateway over HTTP that does what the path of a URL says; a body is the URL that was asked for. */
const client = new ZenRowsBatchClient(API_KEY, { baseURL: `${CONVEYOR_URL}/v1` });
/** With the built-in gateway; lists of more than INLINE_TASKS_MAX tasks are ingested in the background. */
const demo = new ZenRowsBatchClient(API_KEY, { baseURL: `${CONVEYOR_DEMO_URL}/v1` });

const called = new Set();
const missing = record([
  ZenRowsBatchClient,
  zenrows.JobRef,
  zenrows.RunRef,
  zenrows.CurrentRun,
  zenrows.ExportRef,
  client.job(UNKNOWN).schedule.constructor,
]);

/** Notes which public methods were called with success, and returns a function that names the others. */
function record(classes) {
  const all = [];
  for (const { name: owner, prototype } of classes) {
    for (const [name, { value: method }] of Object.entries(Object.getOwnPropertyDescriptors(prototype))) {
      // `currentRunId` is private to TypeScript.
      if (typeof method !== "function" || name.startsWith("_") || ["constructor", "currentRunId"].includes(name)) continue;
      const full = `${owner}.${name}`;
      all.push(full);
      prototype[name] = function (...args) {
        const result = method.apply(this, args);
        if (typeof result?.then === "function") result.then(() => called.add(full), () => {});
        else called.add(full);
        return result;
      };
    }
  }
  return () => all.filter((name) => !called.has(name));
}

const urls = (count, path = "/node") => Array.from({ length: count }, (_, n) => `https://site.example${path}/${n}`);

async function all(generator) {
  const items = [];
  for await (const item of generator) items.push(item);
  return items;
}

async function refused(call, status, code) {
  const error = await call.then(
    () => assert.fail(`not refused: ${code}`),
    (error) => error,
  );
  assert.ok(error instanceof ZenRowsBatchError, error);
  assert.deepEqual([error.status, error.code], [status, code], error.message);
  assert.ok(error.problem.type && error.problem.title && error.problem.instance);
  return error;
}

/** A POST that the client does not have. */
const raw = (url, body) => fetch(url, { method: "POST", headers: { "X-API-Key": API_KEY }, body });

/** Lets go of tasks that the gateway holds. */
const release = (name) => fetch(`${GATEWAY_URL}?url=${encodeURIComponent(`https://site.example/release/${name}`)}`);

describe("the Node client", { concurrency: 12 }, () => {
  it("works a list to its end", async () => {
    const tasks = urls(20).map((url, n) => ({ url, external_id: `row-${n}`, metadata: { n: String(n) } }));
    const ref = await client.submitRegular(tasks, undefined, {
      name: "from node",
      externalId: "node-1",
      metadata: { team: "data" },
      zenrowsParams: { wait: 5, premium_proxy: true },
    });
    assert.deepEqual([ref.status, ref.acceptedTasks], ["closed", 20]);
    assert.equal(ref.submitResponse.latest_run.ingest_status, undefined, "written before the answer: 201");
    const run = await ref.run.wait(WAIT);
    assert.equal(run.status, "completed");
    const { total, completed, successful, failed } = run.stats;
    assert.deepEqual({ total, completed, successful, failed }, { total: 20, completed: 20, successful: 20, failed: 0 });

    const job = (await client.job(ref.jobId).load()).data;
    assert.deepEqual([job.name, job.external_id, job.metadata], ["from node", "node-1", { team: "data" }]);
    assert.deepEqual([job.type, job.format, job.zenrows_params], ["regular", "html", { wait: "5", premium_proxy: "true" }]);
    assert.equal((await client.getJob(ref.jobId)).data.latest_run.run_id, run.runId);
    assert.equal((await client.getRun(ref.jobId, run.runId)).stats.total, 20);
    assert.deepEqual((await client.listRuns(ref.jobId, { limit: 5 })).runs.map((r) => r.run_id), [run.runId]);
    assert.equal((await all(client.iterRuns(ref.jobId))).length, 1);
    assert.equal((await all(ref.runs(1))).length, 1);
    assert.equal((await client.waitForRun(ref.jobId, { runId: run.runId, ...WAIT })).status, "completed");
    assert.equal((await client.run(ref.jobId, run.runId).load()).status, "completed");

    const pages = [];
    for (let cursor = ""; cursor !== undefined; cursor = pages.at(-1).next_cursor) {
      pages.push(await client.getResults(ref.jobId, { limit: 7, cursor }));
    }
    assert.deepEqual(pages.map((page) => page.results.length), [7, 7, 6]);
    const rows = pages.flatMap((page) => page.results);
    assert.deepEqual(rows.map((r) => [r.url, r.external_id, r.metadata.n, r.status, r.type, r.run_id]),
      tasks.map((t, n) => [t.url, t.external_id, String(n), "successful", "html", run.runId]));
    assert.equal((await all(client.iterResults(ref.jobId, { runId: run.runId, status: "successful" }))).length, 20);
    assert.equal((await all(ref.run.results({ status: "failed" }))).length, 0);

    for (const options of [{}, { runId: run.runId }]) {
      assert.equal(await client.getTaskContent(ref.jobId, rows[3].task_id, options), rows[3].url);
      const { events } = await client.getTaskHistory(ref.jobId, rows[3].task_id, options);
      assert.deepEqual(events.map((e) => [e.attempt, e.error]), [[1, undefined]]);
    }
    assert.equal((await run.taskHistory(rows[0].task_id)).events.length, 1);
    assert.equal((await ref.run.taskHistory(rows[0].task_id)).events.length, 1);
    const { min, exact } = client.estimateCost(tasks, { js_render: true });
    assert.deepEqual([min, exact], [100, true]);
  });

  it("downloads bodies", async () => {
    const ref = await client.submitRegular(urls(3, "/bodies").map((url, n) => ({ url, external_id: `b${n}` })));
    const run = await ref.run.wait(WAIT);
    const [row] = await all(run.results());
    for (const facet of [run, ref.run]) {
      const bodies = await facet.downloadToMemory({ concurrency: 2 });
      assert.deepEqual(bodies.map((b) => b.body.toString()), urls(3, "/bodies"));
      const folder = join(FOLDER, facet.constructor.name);
      assert.equal(await facet.downloadToDir(folder, { useExternalId: true }), 3);
      assert.deepEqual((await readdir(folder)).sort(), ["b0", "b1", "b2"]);
      await facet.downloadTaskToFile(row, join(folder, "one"));
      assert.deepEqual(await readFile(join(folder, "one")), await facet.downloadTaskToMemory(row));
    }
  });

  it("waits for a long list to be ingested", async () => {
    const count = Number(INLINE_TASKS_MAX) + 50;
    const ref = await demo.submitRegular(urls(count));
    assert.equal(ref.acceptedTasks, count);
    assert.equal(ref.submitResponse.latest_run.ingest_status, "pending", "202");
    const ingested = await ref.waitForIngest(WAIT);
    assert.deepEqual([ingested.data.latest_run.ingest_status, ingested.data.latest_run.stats.total], ["done", count]);
    assert.equal((await ref.run.wait(WAIT)).stats.successful, count);
    assert.equal((await all(ref.run.results())).length, count);
  });

  it("uploads a list as CSV", async () => {
    const lines = urls(4, "/csv").map((url, n) => `r${n};'${url}'\n`);
    const options = { fields: { url: "link", external_id: "id" }, header: true, delimiter: ";", quote: "'" };
    const upload = await demo.uploadCsv(`id;link\n${lines.join("")}`, options);
    const ref = await demo.submitRegular(undefined, upload, { waitForIngest: true });
    const run = await ref.run.wait(WAIT);
    assert.deepEqual((await all(run.results())).map((r) => r.external_id), ["r0", "r1", "r2", "r3"]);
    const bytes = await ref.addFileInput(Buffer.from("https://site.example/x\n"), { fields: { url: 0 } });
    assert.equal((await (await demo.submitRegular(undefined, bytes)).run.wait(WAIT)).stats.total, 1);
    const slot = await demo.createJobInput({ type: "csv", csv: { fields: { url: 0 } } });
    await refused(demo.submitRegular(undefined, slot.file_input_id), 409, "file_input_not_uploaded");
    await refused(demo.submitRegular(undefined, UNKNOWN), 404, "file_input_not_found");
  });

  it("adds to an open job and closes it", async () => {
    const ref = await client.submitOpen();
    assert.deepEqual([ref.status, ref.acceptedTasks], ["open", 0]);
    const added = await ref.addTasks(urls(2, "/open").map((url) => ({ url })));
    assert.deepEqual([added.accepted_tasks, added.job_status], [2, "open"]);
    const closed = await ref.close();
    assert.deepEqual([closed.status, closed.data.latest_run.last_batch_received], ["closed", true]);
    assert.equal((await ref.run.wait(WAIT)).stats.total, 2);
    await refused(ref.addTasks([{ url: urls(1)[0] }]), 409, "job_not_open");
    const other = await client.submitOpen(urls(1));
    const last = await other.addTasks([{ url: "https://site.example/last" }], { lastBatch: true });
    assert.deepEqual([last.job_status, last.latest_run.last_batch_received], ["closed", true]);
  });

  it("pauses, resumes and stops", async () => {
    const ref = await client.submitRegular(urls(2, "/held/node-pause"));
    const paused = await ref.run.pause();
    assert.deepEqual([paused.status, paused.data.pause_state], ["running", "paused"]);
    assert.equal((await ref.run.load()).data.pause_state, "paused");
    assert.equal((await ref.run.resume()).data.pause_state, undefined);
    await assert.rejects(ref.run.wait({ pollInterval: 0.05, timeout: 0.1 }), zenrows.WaiterTimeoutError);
    const failureStatuses = new Set(["running"]);
    await assert.rejects(ref.run.wait({ ...WAIT, failureStatuses }), zenrows.WaiterFailureError);
    await release("node-pause");
    assert.equal((await ref.run.wait(WAIT)).stats.successful, 2);
    await refused(ref.run.stop(), 409, "run_not_stoppable");
    for (const end of ["stop", "cancel"]) {
      const held = await client.submitRegular(urls(1, `/held/node-${end}`));
      assert.equal((await held.run[end]()).status, "stopped");
      assert.equal((await held.run.wait(WAIT)).status, "stopped");
      await release(`node-${end}`);
    }
  });

  it("repeats what failed, and everything", async () => {
    const ref = await client.submitRegular([...urls(2), ...urls(1, "/missing/node")]);
    const first = await ref.run.wait(WAIT);
    assert.deepEqual([first.stats.successful, first.stats.failed], [2, 1]);
    assert.equal((await all(first.results({ status: "failed" })))[0].error.code, "http_404");
    const part = await ref.retryFailed({ idempotencyKey: "node-retry" });
    assert.equal((await ref.retryFailed({ idempotencyKey: "node-retry" })).runId, part.runId, "once");
    const rows = await all((await part.wait(WAIT)).results());
    assert.deepEqual(rows.map((r) => r.source_run_id), [first.runId, first.runId, undefined]);
    await refused(client.run(ref.jobId, first.runId).delete(), 409, "run_has_descendants");
    await refused(ref.rerun({ status: ["pending"] }), 409, "no_matching_tasks");
    const whole = await (await ref.rerun()).wait(WAIT);
    assert.deepEqual([whole.data.run_sequence, whole.stats.total], [3, 3]);
    await whole.delete();
    assert.equal((await ref.run.load()).runId, part.runId, "the latest run moves back");
  });

  it("fails a run that cannot be paid", async () => {
    const ref = await client.submitRegular(urls(1, "/unpaid/node"));
    // This client does not count `failed` among the ends of a run.
    const run = await ref.run.wait({ ...WAIT, targetStatuses: new Set(["failed"]) });
    assert.equal(run.data.failure_reason, "api_key_cap_reached");
  });

  it("schedules", async () => {
    const at = new At("2099-07-01T09:00:00", "Europe/Berlin");
    const once = await client.submitScheduled(at, urls(1));
    assert.equal(Date.parse((await once.load()).data.next_scheduled_run), Date.parse("2099-07-01T07:00:00Z"));
    const every = await client.submitScheduled(new Rate(1, "day"), urls(2), undefined, { name: "poll" });
    const { data } = await every.load();
    assert.deepEqual([data.type, data.schedule_state, data.schedule.rate, data.latest_run],
      ["scheduled", "active", { every: 1, unit: "day" }, undefined]);
    await refused(every.addTasks([{ url: urls(1)[0] }]), 409, "job_not_open");
    assert.equal((await every.schedule.pause()).data.schedule_state, "paused");
    assert.equal((await every.schedule.resume()).data.schedule_state, "active");
    for (const cadence of [new Daily(), new Weekly(["mon", "fri"]), new Monthly([1, 31])]) {
      const changed = await every.schedule.update(new Calendar(["09:00"], cadence, "America/New_York"));
      assert.deepEqual(changed.data.schedule.calendar.times_of_day, ["09:00"]);
    }
    assert.equal((await (await every.rerun()).wait(WAIT)).stats.total, 2, "fired by hand");
    assert.ok((await all(client.iterJobs({ type: "scheduled", limit: 1 }))).some((job) => job.jobId === every.jobId));
    await Promise.all([once.delete(), every.delete()]);
  });

  describe("webhooks", { concurrency: 1 }, () => {
    const receiver = createServer(async (request, answer) => {
      heard.push({ headers: request.headers, body: Buffer.concat(await all(request)) });
      answer.end();
      waiting.splice(0).forEach((wake) => wake());
    });
    const [heard, waiting] = [[], []];
    let url;
    before(async () => {
      await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
      url = `http://127.0.0.1:${receiver.address().port}/hook`;
    });
    after(() => {
      receiver.close();
      receiver.closeAllConnections();
    });

    async function delivered(event) {
      for (;;) {
        const found = heard.find(({ body }) => Object.entries(event).every(([k, v]) => JSON.parse(body)[k] === v));
        if (found) return found;
        await new Promise((wake) => waiting.push(wake));
      }
    }

    /** What production documents; unlike the Python client, this one brings no verifier. */
    function signedBy({ headers, body }, { kid, secret }) {
      const parts = Object.fromEntries(headers["x-signature"].split(",").map((part) => part.split("=")));
      const key = Buffer.from(secret, "base64");
      assert.equal(key.length, 32);
      assert.ok(Math.abs(Date.now() / 1000 - Number(parts.t)) < 300);
      const digest = createHmac("sha256", key).update(`${parts.t}.`).update(body).digest("hex");
      return parts.kid === kid && parts.v1 === digest;
    }

    it("rotates keys and signs with the active one", async () => {
      await client.cancelHmacRotation();
      await refused(client.testWebhook({ url, signature: true }), 400, "webhook_signing_requires_active_key");
      const first = await client.rotateHmacKey();
      assert.equal((await client.listHmacKeys()).active.kid, first.kid, "the first key is active at once");
      await refused(client.finalizeHmacKey(), 409, "no_candidate");
      const second = await client.rotateHmacKey();
      await refused(client.rotateHmacKey(), 409, "candidate_pending");
      assert.equal((await client.listHmacKeys()).candidate.kid, second.kid);

      const tested = await client.testWebhook({ url, signature: true });
      assert.deepEqual([tested.delivered, tested.status_code], [true, 200]);
      const test = await delivered({ event_type: "webhook.test" });
      assert.ok(signedBy(test, first) && !signedBy(test, second));

      assert.equal((await client.finalizeHmacKey()).active_kid, second.kid);
      const ref = await client.submitRegular(urls(1), undefined, { webhook: { url, signature: true } });
      assert.deepEqual(ref.submitResponse.webhook, { url, signature: true });
      const run = await ref.run.wait(WAIT);
      const told = await delivered({ run_id: run.runId });
      assert.ok(signedBy(told, second) && !signedBy(told, first));
      assert.ok(!signedBy({ ...told, body: Buffer.concat([told.body, Buffer.from(" ")]) }, second));
      const event = JSON.parse(told.body);
      assert.deepEqual([event.event_type, event.job_id, event.stats.successful], ["run.completed", ref.jobId, 1]);
      assert.equal(told.headers["x-zenrows-event-id"], event.event_id);
    });

    it("sets and removes the webhook of a job", async () => {
      const ref = await client.submitOpen();
      await refused(ref.getWebhook(), 404, "not_found");
      assert.deepEqual(await ref.setWebhook(url, false), { url, signature: false });
      assert.deepEqual(await client.putJobWebhook(ref.jobId, { url: `${url}/2` }), { url: `${url}/2`, signature: false });
      assert.deepEqual(await client.getJobWebhook(ref.jobId), await ref.getWebhook());
      await refused(ref.setWebhook("http://site.example/x", false), 400, "callback_url_must_be_https");
      await ref.deleteWebhook();
      await client.deleteJobWebhook(ref.jobId);
      await ref.close();
    });
  });

  it("exports results", async () => {
    const ref = await client.submitRegular(urls(3));
    const run = await ref.run.wait(WAIT);
    const started = await run.startExport();
    assert.ok(started.startResponse.expires_at);
    const done = await started.wait(WAIT);
    assert.equal(done.status, "completed");
    assert.equal((await client.getResultsExport(ref.jobId, run.runId, done.exportId)).status, "completed");
    await run.export(done.exportId).downloadToPath(join(FOLDER, "one.zip"));
    assert.equal((await (await ref.run.startExport()).wait(WAIT)).status, "completed");
    const poll = { pollInterval: 0.1 };
    await run.downloadAllResults(join(FOLDER, "two.zip"), poll);
    await ref.run.downloadAllResults(join(FOLDER, "three.zip"), poll);
    await refused(run.export(UNKNOWN).load(), 404, "not_found");
  });

  it("submits once under an idempotency key", async () => {
    const submit = (count) => client.submitJob({ tasks: urls(count).map((url) => ({ url })), idempotencyKey: "node-once" });
    const [one, again] = [await submit(1), await submit(1)];
    assert.equal(one.jobId, again.jobId);
    await refused(submit(2), 409, "idempotency_key_conflict");
  });

  it("lists and deletes", async () => {
    const refs = [];
    for (let n = 0; n < 3; n++) refs.push(await demo.submitOpen());
    const page = await demo.listJobs({ limit: 2, status: "open" });
    assert.equal(page.jobs.length, 2);
    assert.ok(page.next_cursor);
    for (const ref of refs) {
      await ref.delete();
      // At once, and not only when everything of it is removed.
      const acts = [ref.close(), ref.run.stop(), ref.run.pause(), ref.run.resume(), ref.rerun()];
      await Promise.all(acts.map((act) => refused(act, 404, "not_found")));
      assert.equal((await raw(`${CONVEYOR_DEMO_URL}/v1/jobs/${ref.jobId}/cancel`)).status, 404);
    }
  });

  it("may say things in more than one way", async () => {
    const tasks = [{ url: "https://site.example/repeat" }];
    const headers = { Host: "evil.example", "Content-Length": "9", "X-Canary": "sings" };
    const ref = await client.submitJob({ tasks, zenrows_params: { custom_headers: headers } });
    const run = await ref.run.wait(WAIT);
    const [row] = await all(run.results());
    assert.equal(row.error.detail, "Nothing with sings.", "headers of the connection are dropped, others are sent");
    assert.equal((await ref.load()).data.zenrows_params.custom_headers, "***");
    // An empty cursor is the first page.
    assert.equal((await client.listJobs({ limit: 1, cursor: "" })).jobs.length, 1);
    assert.equal((await client.listRuns(ref.jobId, { cursor: "" })).runs.length, 1);
    // Bytes have no Content-Type of their own.
    const body = Buffer.from(JSON.stringify({ tasks: [{ url: "https://site.example/" }] }));
    const made = await raw(`${CONVEYOR_URL}/v1/jobs`, body);
    assert.equal(made.status, 201);
  });

  it("knows what was refused and why", async () => {
    await refused(client.getJob(UNKNOWN), 404, "not_found");
    const stranger = new ZenRowsBatchClient("x".repeat(20), { baseURL: `${CONVEYOR_URL}/v1`, retries: 0 });
    await refused(stranger.listJobs(), 401, "unauthenticated");
    const error = await refused(client.submitRegular([urls(1)[0], "ftp://site.example/"]), 400, "invalid_argument");
    assert.deepEqual(error.extras.invalid_tasks.map((t) => [t.index, t.reason]), [[1, "unsupported_scheme"]]);
    await refused(client.submitRegular(urls(1), undefined, { zenrowsParams: { nonsense: true } }), 400, "invalid_argument");
    await refused(client.submitRegular([]), 400, "invalid_argument");
    await refused(client.listJobs({ cursor: "edited" }), 400, "invalid_cursor");
  });
});

it("was called with every public method", () => assert.deepEqual(missing(), []));
