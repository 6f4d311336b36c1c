// pg-boss: PgBoss.insert, one statement a batch.
import pg from "pg";
import { PgBoss } from "pg-boss";
import { measure, settings } from "./rows.mjs";

const chosen = settings();
const server = { host: chosen.socket, user: "postgres", database: "postgres" };
const boss = new PgBoss({ ...server, max: chosen.inFlight + 1, supervise: false, schedule: false });
boss.on("error", (error) => {
  throw error;
});
await boss.start();
await boss.createQueue("tasks");
await measure(
  chosen,
  (tasks) => boss.insert("tasks", tasks.map((data) => ({ data }))),
  async () => {
    const client = new pg.Client(server);
    await client.connect();
    const { rows } = await client.query("SELECT count(*) FROM pgboss.job WHERE name = 'tasks'");
    await client.end();
    return rows[0].count;
  },
);
await boss.stop({ graceful: false });
