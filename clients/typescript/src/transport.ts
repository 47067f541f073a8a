/**
 * One question to the server, and an answer or the reason why there is none.
 *
 * Invariant: `ask` never rejects and never throws; only an answer with status 200 and a JSON object in it, whole and in
 * time, from the address that was asked, is one. Nothing is logged, and no message repeats the body, the token or the answer.
 */

import { jsonText, NotSent } from "./json.js";
import { isObject } from "./schema.js";

/** How the server is reached. */
export interface ClientOptions {
  /** Where `threegate serve http` answers, such as `http://127.0.0.1:8766`. */
  baseUrl: string;
  /** The server's THREEGATE_TOKEN. */
  token?: string | undefined;
  /** Used instead of the global `fetch`. */
  fetch?: typeof globalThis.fetch | undefined;
  /** Ends the question; the answer is then no. */
  signal?: AbortSignal | undefined;
  /** Milliseconds for the whole answer; default 5000. */
  timeoutMs?: number | undefined;
}

/** Why there is no answer. */
export type FailureCode =
  | "call_aborted"
  | "client_misconfigured"
  | "gate_answer_malformed"
  | "gate_rate_limited"
  | "gate_too_late"
  | "gate_unauthorized"
  | "gate_unreachable"
  | "gate_wrong_status"
  | "not_json"
  | "too_large"
  | "tool_not_described";

export interface Failure {
  code: FailureCode;
  message: string;
}

export type Answer = { value: Record<string, unknown>; sent: Record<string, unknown> } | { failure: Failure };

const TIMEOUT_MS = 5000;
const LONGEST_MS = 2 ** 31 - 1;
/** The largest answer that is read; the longest envelope of a 64 KiB event is below it. */
const ANSWER_BYTES = 4 * 1024 * 1024;

/** Post a body to a path of the server. Never rejects. */
export async function ask(path: string, body: unknown, options: ClientOptions): Promise<Answer> {
  const controller = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const text = jsonText(body);
    const { url, init } = requestOf(path, text, options, controller.signal);
    const send = options.fetch ?? globalThis.fetch;
    const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    if (!(timeoutMs > 0 && timeoutMs <= LONGEST_MS)) throw new RangeError("timeoutMs");
    if (options.signal?.aborted) return failed("call_aborted", "the signal was aborted before the gate was asked");
    let stop!: (answer: Answer) => void;
    const stopped = new Promise<Answer>((resolve) => (stop = resolve));
    timer = setTimeout(() => stop(failed("gate_too_late", "the gate did not answer in time")), timeoutMs);
    const aborted = (): void => stop(failed("call_aborted", "the signal was aborted before the gate answered"));
    options.signal?.addEventListener("abort", aborted, { once: true, signal: controller.signal });
    return await Promise.race([exchange(send, url, init, text), stopped]);
  } catch (error) {
    if (error instanceof NotSent) return failed(error.code, `what was to be checked ${error.message}`);
    return failed("client_misconfigured", "the options are wrong: give baseUrl as http(s)://…, token, fetch, timeoutMs > 0");
  } finally {
    clearTimeout(timer);
    controller.abort(); // ends the request where it still runs, and takes the listener from the caller's signal
  }
}

export function failed(code: FailureCode, message: string): { failure: Failure } {
  return { failure: { code, message } };
}

function requestOf(path: string, text: string, options: ClientOptions, signal: AbortSignal): { url: URL; init: RequestInit } {
  const base = new URL(options.baseUrl);
  if (base.protocol !== "http:" && base.protocol !== "https:") throw new TypeError("baseUrl");
  base.pathname = `${base.pathname.replace(/\/+$/, "")}/${path}`;
  base.search = base.hash = "";
  const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json" };
  if (options.token !== undefined) headers["Authorization"] = `Bearer ${options.token}`;
  new Headers(headers); // throws here for a token that is no header value
  const init: RequestInit = {
    method: "POST",
    headers,
    body: text,
    redirect: "error",
    cache: "no-store",
    credentials: "omit",
    referrerPolicy: "no-referrer",
    signal,
  };
  return { url: base, init };
}

async function exchange(send: typeof globalThis.fetch, url: URL, init: RequestInit, text: string): Promise<Answer> {
  let response: Response;
  try {
    response = await send(url, init);
    if (response.redirected) throw new TypeError("redirected");
  } catch {
    return failed("gate_unreachable", "the gate cannot be reached, or it redirects; does threegate serve http run at baseUrl?");
  }
  try {
    const refused = statusFailure(response.status);
    if (refused !== undefined) return { failure: refused };
    const type = response.headers.get("content-type") ?? "";
    if (type.split(";")[0]?.trim().toLowerCase() !== "application/json") return malformed();
    const value: unknown = JSON.parse(await bodyOf(response));
    return isObject(value) ? { value, sent: JSON.parse(text) as Record<string, unknown> } : malformed();
  } catch {
    return malformed();
  }
}

function malformed(): Answer {
  return failed("gate_answer_malformed", "the answer is no whole answer of a gate");
}

function statusFailure(status: number): Failure | undefined {
  if (status === 200) return undefined;
  if (status === 401) return { code: "gate_unauthorized", message: "the gate wants another token: THREEGATE_TOKEN of the server" };
  if (status === 413) return { code: "too_large", message: "what was to be checked is larger than the gate reads" };
  if (status === 429) return { code: "gate_rate_limited", message: "too many requests from this address; wait, then ask again" };
  return { code: "gate_wrong_status", message: `the gate answered with status ${status}` };
}

/** The body as text, read no further than ANSWER_BYTES. Throws for more, and for what is no UTF-8. */
async function bodyOf(response: Response): Promise<string> {
  if (response.body === null) throw new TypeError("no body");
  const reader = response.body.getReader();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.byteLength;
    if (length > ANSWER_BYTES) throw new RangeError("too long");
    text += decoder.decode(value, { stream: true });
  }
}
