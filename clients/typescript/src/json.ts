/**
 * A value as the JSON text that is sent.
 *
 * Invariant: what is written is what the value holds. Anything that JSON would leave out or turn into something else (a
 * function, NaN, a Date, a class, a bigint, a hole in an array) is an error. Only a property that is undefined is left out.
 */

/** The bytes and levels that a server of ThreeGate reads. */
export const MAX_BYTES = 64 * 1024;

/** Why a value is not sent. The message repeats nothing of it. */
export class NotSent extends Error {
  constructor(
    readonly code: "not_json" | "too_large",
    message: string,
  ) {
    super(message);
  }
}

/** The JSON text of a value. Throws NotSent, and nothing else. */
export function jsonText(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value, strictly);
  } catch {
    text = undefined;
  }
  if (text === undefined) {
    throw new NotSent("not_json", "holds what is no JSON: send objects, arrays, strings, finite numbers, booleans, null");
  }
  if (new TextEncoder().encode(text).length > MAX_BYTES) {
    throw new NotSent("too_large", `is larger than ${MAX_BYTES} bytes`);
  }
  return text;
}

/** A replacer of JSON.stringify that changes nothing and throws for what is no JSON. */
function strictly(this: unknown, key: string, value: unknown): unknown {
  const given = (this as Record<string, unknown>)[key];
  if (!Object.is(given, value)) throw new TypeError("a toJSON or a getter writes something else");
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      break;
    case "undefined":
      if (!Array.isArray(this)) return value;
      break;
    case "object":
      if (value === null || Array.isArray(value) || isPlain(value)) return value;
      break;
  }
  throw new TypeError("no JSON");
}

/** Whether an object was written as `{...}`, in this realm or another one. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
