// Functions that run only when a gate says so: by the Agent Action Contract, and by a workspace's contracts.
import { gateCall, gateTool, type ClientOptions, type GateOutcome } from "@threegate/client";

async function sendEmail(to: string, body: string): Promise<{ id: string }> {
  return { id: `sent to ${to}: ${body.length} characters` };
}

export function gated(options: ClientOptions) {
  const send = gateTool(
    sendEmail,
    (to, body) => ({
      tool_name: "send_email",
      tool_category: "write",
      authorization_state: "confirmed",
      evidence_refs: [
        {
          source_id: "approval.send_email",
          kind: "approval",
          trust_tier: "verified",
          redaction_status: "redacted",
          freshness: { status: "fresh" },
        },
      ],
      risk_domain: "customer_support",
      proposed_arguments: { to, body },
      recommended_route: "accept",
    }),
    options,
  );
  const order = gateCall(
    (shares: number) => ({ filled: shares }),
    (shares) => ({ tool: "submit_live_order", arguments: { shares }, session_id: "desk-1" }),
    options,
  );
  return { send, order };
}

export async function use(options: ClientOptions): Promise<string> {
  const { send, order } = gated(options);
  const sent: GateOutcome<{ id: string }> = await send("customer@example.com", "Hello");
  if (sent.blocked) return `blocked: ${sent.aana.recovery}`;
  const ordered = await order(10);
  // @ts-expect-error -- the value is there only when the call was not blocked
  ordered.value;
  return ordered.blocked ? (ordered.decision.reasons ?? []).map((reason) => reason.code).join() : `${sent.value.id}, ${ordered.value.filled}`;
}
