// graphile-worker: its SQL function add_jobs, one call a batch. The library's addJobs calls the same function and reads
// every stored row back, which takes twice as long; a bulk load has no use for them.
import { makeWorkerUtils } from "graphile-worker";
import pg from "pg";
import { measure, settings } from "./rows.mjs";

const ADD_JOBS = `SELECT count(*) FROM graphile_worker.add_jobs(
  array(SELECT json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`;

const chosen = settings();
const pool = new pg.Pool({ host: chosen.socket, user: "postgres", database: "postgres", max: chosen.inFlight + 1 });
const fail = (error) => {
  throw error;
};
// The library wants to see that errors of the pool are handled.
pool.on("error", fail);
pool.on("connect", (client) => client.on("error", fail));
const utils = await makeWorkerUtils({ pgPool: pool });
await utils.migrate();
await measure(
  chosen,
  (tasks) => pool.query(ADD_JOBS, [JSON.stringify(tasks.map((payload) => ({ identifier: "fetch", payload })))]),
  async () => (await pool.query("SELECT count(*) FROM graphile_worker.jobs")).rows[0].count,
);
await utils.release();
await pool.end();
