// BullMQ: Queue.addBulk, one pipelined transaction a batch.
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { measure, settings } from "./rows.mjs";

const chosen = settings();
const connection = new Redis({ path: chosen.socket, maxRetriesPerRequest: null });
const queue = new Queue("tasks", { connection });
await queue.waitUntilReady();
await measure(
  chosen,
  (tasks) => queue.addBulk(tasks.map((data) => ({ name: "fetch", data }))),
  () => queue.getWaitingCount(),
);
await queue.close();
await connection.quit();
