/**
 * The arguments of a gated call, copied once.
 *
 * Invariant: nobody else can change a copy. structuredClone leaves shared memory shared, so arguments that hold any are refused.
 */

/** A copy of a value. Throws for what cannot be copied, and for shared memory. */
export function copied<T>(value: T): T {
  const copy = structuredClone(value);
  if (isShared(copy, new Set())) throw new TypeError("shared memory cannot be copied");
  return copy;
}

function isShared(value: unknown, seen: Set<unknown>): boolean {
  if (typeof value !== "object" || value === null || seen.has(value)) return false;
  seen.add(value);
  if (ArrayBuffer.isView(value)) return isShared(value.buffer, seen);
  const kind = Object.prototype.toString.call(value);
  if (kind === "[object SharedArrayBuffer]" || kind === "[object WebAssembly.Memory]") return true;
  if (value instanceof Map || value instanceof Set) return isShared([...value], seen);
  return Object.getOwnPropertyNames(value).some((name) => isShared((value as Record<string, unknown>)[name], seen));
}
