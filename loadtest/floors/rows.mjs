// What the scripts share: the rows of the list, and the clock around adding them.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

/** `{ socket, list, rows, batch, inFlight }` from the command line, in that order. */
export function settings() {
  const [socket, list, ...numbers] = process.argv.slice(2);
  const [rows, batch, inFlight] = numbers.map(Number);
  return { socket, list, rows, batch, inFlight };
}

/** The first rows of the list as task objects. They are read before the clock starts, which favours the peer. */
async function read({ list, rows }) {
  const tasks = [];
  const lines = createInterface({ input: createReadStream(list) });
  let header = true;
  for await (const line of lines) {
    if (header) {
      header = false;
      continue;
    }
    const comma = line.indexOf(",");
    tasks.push({ external_id: line.slice(0, comma), url: line.slice(comma + 1) });
    if (tasks.length === rows) break;
  }
  if (tasks.length !== rows) throw new Error(`the list has ${tasks.length} rows, and ${rows} were asked for`);
  return tasks;
}

/** Adds all rows in batches, `inFlight` of them at once, and says how long it took. `count` is asked afterwards. */
export async function measure(settings, add, count) {
  const tasks = await read(settings);
  const batches = [];
  for (let at = 0; at < tasks.length; at += settings.batch) batches.push(tasks.slice(at, at + settings.batch));
  let next = 0;
  const producer = async () => {
    while (next < batches.length) await add(batches[next++]);
  };
  const begin = process.hrtime.bigint();
  await Promise.all(Array.from({ length: settings.inFlight }, producer));
  const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
  const stored = Number(await count());
  if (stored !== tasks.length) throw new Error(`${stored} of ${tasks.length} rows are there`);
  console.log(JSON.stringify({ rows: tasks.length, seconds }));
}
