// What would ThreeGate say of an action proposal?
import { checkProposal, mayBecomeDraft, validateProposal, type ActionProposal, type ClientOptions } from "@threegate/client";

export async function propose(options: ClientOptions): Promise<string> {
  const proposal: ActionProposal = { tool: "file.read", args: { path: "README.md", maxBytes: 4096 } };
  const problems = validateProposal(proposal);
  if (problems.length > 0) return problems.map(({ path, message }) => `${path}: ${message}`).join("\n");
  const verdict = await checkProposal(proposal, options);
  return mayBecomeDraft(verdict) ? `becomes: ${verdict.becomes}` : verdict.errors.map(({ code }) => code).join();
}

// @ts-expect-error -- file.read has no argv
export const wrong: ActionProposal = { tool: "file.read", args: { path: "a", argv: ["ls"] } };
