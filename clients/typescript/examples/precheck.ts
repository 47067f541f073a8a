// Ask before a tool runs, and run it only when the answer is yes.
import { checkToolPrecheck, shouldExecuteTool, toolPrecheckEvent } from "@threegate/client";

export async function recentTransactions(token: string): Promise<string> {
  const event = toolPrecheckEvent({
    toolName: "get_recent_transactions",
    toolCategory: "private_read",
    authorizationState: "authenticated",
    evidenceRefs: ["auth.session"], // ask: a plain string supports at most user_claimed; send the auth_event itself
    riskDomain: "finance",
    proposedArguments: { account_id: "acct_redacted", limit: 10 },
    recommendedRoute: "accept",
  });

  const decision = await checkToolPrecheck(event, { baseUrl: "http://127.0.0.1:8766", token, timeoutMs: 2000 });

  if (shouldExecuteTool(decision)) {
    return "execute the original tool call";
  }
  return `${decision.route}: ${decision.hard_blockers.join(", ")}`;
}

// @ts-expect-error -- revise is no route of a tool call
toolPrecheckEvent({ toolName: "x", toolCategory: "write", authorizationState: "none", evidenceRefs: [], riskDomain: "unknown", proposedArguments: {}, recommendedRoute: "revise" });
// @ts-expect-error -- arguments are an object
toolPrecheckEvent({ toolName: "x", toolCategory: "write", authorizationState: "none", evidenceRefs: [], riskDomain: "unknown", proposedArguments: "to" });
// @ts-expect-error -- where the gate is must be said
checkToolPrecheck({} as never, {});
