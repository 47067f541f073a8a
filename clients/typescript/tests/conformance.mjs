// Asks a server about each event of standard input, one a line, and prints each envelope as a line of JSON.
import { createInterface } from "node:readline";
import { checkToolPrecheck, shouldExecuteTool } from "../dist/index.js";

const options = { baseUrl: process.argv[2], timeoutMs: 20_000 };
for await (const line of createInterface({ input: process.stdin })) {
  const envelope = await checkToolPrecheck(JSON.parse(line), options);
  console.log(JSON.stringify({ envelope, executes: shouldExecuteTool(envelope) }));
}
