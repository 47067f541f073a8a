// Writes src/generated/: the types of ../../schemas, and the schemas themselves for the checks at run time.
// Part of every build, so neither can be out of date.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { compile } from "json-schema-to-typescript";

const SCHEMAS = [
  ["AgentActionEvent", "agent_action_contract_v1", plainEvent],
  ["AgentActionResult", "agent_action_result", (schema) => schema],
  ["ActionProposal", "agent-action-proposal", oneProposalForEachTool],
  ["ProposalVerdict", "proposal-verdict", (schema) => schema],
  ["ContractLine", "contract-line", (schema) => schema],
  ["ContractDecision", "contract-decision", (schema) => schema],
];
const HEAD = "// Made by generate.mjs from the JSON Schemas of ThreeGate. Do not edit.\n\n";
const here = new URL(".", import.meta.url);

/** The rules that join fields are no types; `validateEvent` applies them. */
function plainEvent({ allOf: _, ...schema }) {
  return schema;
}

/** A union over the tools instead of conditions: each tool with the arguments that it has. */
function oneProposalForEachTool({ allOf, properties, ...schema }) {
  const rules = allOf.flatMap(({ if: { properties: { tool } }, then }) =>
    (tool.enum ?? [tool.const]).map((name) => [name, then.properties.args]),
  );
  const argsOf = new Map(rules);
  const forms = properties.tool.enum.map((name) => ({
    ...schema,
    properties: { ...properties, tool: { const: name }, args: argsOf.get(name) ?? properties.args },
  }));
  return { anyOf: forms };
}

/** An object whose properties nobody lists may have any: a type of its own is made of that, not `{}`. */
function opened(schema) {
  if (Array.isArray(schema)) return schema.map(opened);
  if (typeof schema !== "object" || schema === null) return schema;
  const below = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, opened(value)]));
  const open = below.type === "object" && below.properties === undefined && below.additionalProperties === undefined;
  return open ? { ...below, additionalProperties: true } : below;
}

const types = [HEAD];
const values = [HEAD, 'import type { Schema } from "../schema.js";\n\n'];
for (const [name, file, shape] of SCHEMAS) {
  const schema = JSON.parse(await readFile(new URL(`../../schemas/${file}.schema.json`, here), "utf8"));
  const { $schema: _dialect, $id: _id, title: _title, ...plain } = schema;
  types.push(await compile(opened(shape(plain)), name, { bannerComment: "", additionalProperties: false, maxItems: -1 }), "\n");
  const constant = name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
  values.push(`export const ${constant}: Schema = ${JSON.stringify(plain, null, 2)};\n\n`);
}
const folder = new URL("src/generated/", here);
await mkdir(folder, { recursive: true });
await writeFile(new URL("types.ts", folder), types.join(""));
await writeFile(new URL("schemas.ts", folder), values.join(""));
