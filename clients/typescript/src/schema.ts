/**
 * The part of JSON Schema that ThreeGate's own schemas use.
 *
 * Invariant: a keyword that is not known here is a problem, so a schema never checks less than it says. Messages repeat
 * no value and no key of what is checked.
 */

export type Schema = { readonly [keyword: string]: unknown };

/** What is wrong, and where: `{path: "evidence_refs.0.kind", message: "is none of the allowed values"}`. */
export interface Problem {
  path: string;
  message: string;
}

/** Keywords that say nothing about validity here. Formats are the server's to check. */
const NOTES = new Set(["description", "title", "default", "format", "$schema", "$id", "then"]);

/** Every problem of a JSON value; an empty list for a valid one. */
export function problemsOf(schema: Schema, value: unknown, path = ""): Problem[] {
  const found: Problem[] = [];
  const say = (message: string, below = ""): void => {
    found.push({ path: below === "" ? path : inside(path, below), message });
  };
  for (const [keyword, rule] of Object.entries(schema)) {
    switch (keyword) {
      case "type":
        if (!(Array.isArray(rule) ? rule : [rule]).some((type) => hasType(value, type))) {
          return [{ path, message: `is not of type ${String(rule)}` }];
        }
        break;
      case "enum":
        if (!(rule as unknown[]).includes(value)) say("is none of the allowed values");
        break;
      case "const":
        if (value !== rule) say("is not the allowed value");
        break;
      case "required":
        if (isObject(value)) {
          for (const key of rule as string[]) if (!Object.hasOwn(value, key)) say("is required", key);
        }
        break;
      case "properties":
        if (isObject(value)) {
          for (const [key, below] of Object.entries(rule as Record<string, Schema>)) {
            if (Object.hasOwn(value, key)) found.push(...problemsOf(below, value[key], inside(path, key)));
          }
        }
        break;
      case "additionalProperties":
        if (isObject(value)) {
          const known = (schema["properties"] ?? {}) as Record<string, Schema>;
          for (const key of Object.keys(value)) {
            if (Object.hasOwn(known, key)) continue;
            if (rule === false) say("has an unknown key");
            else found.push(...problemsOf(rule as Schema, value[key], path));
          }
        }
        break;
      case "items":
        if (Array.isArray(value)) {
          value.forEach((item, index) => found.push(...problemsOf(rule as Schema, item, inside(path, String(index)))));
        }
        break;
      case "anyOf":
        found.push(...problemsOfAny(rule as Schema[], value, path));
        break;
      case "allOf":
        for (const part of rule as Schema[]) found.push(...problemsOf(part, value, path));
        break;
      case "if":
        if (problemsOf(rule as Schema, value).length === 0) {
          found.push(...problemsOf(schema["then"] as Schema, value, path));
        }
        break;
      case "pattern":
        if (typeof value === "string" && !new RegExp(rule as string, "u").test(value)) say("is blank");
        break;
      case "minLength":
        if (typeof value === "string" && [...value].length < (rule as number)) say("is too short");
        break;
      case "minItems":
        if (Array.isArray(value) && value.length < (rule as number)) say("has too few items");
        break;
      case "maxItems":
        if (Array.isArray(value) && value.length > (rule as number)) say("has too many items");
        break;
      case "minimum":
        if (typeof value === "number" && value < (rule as number)) say("is too small");
        break;
      case "maximum":
        if (typeof value === "number" && value > (rule as number)) say("is too large");
        break;
      default:
        if (!NOTES.has(keyword)) say("cannot be checked: the schema has a keyword that this client does not know");
    }
  }
  return found;
}

/** None, or the problems of the one form that is of the value's type. */
function problemsOfAny(forms: Schema[], value: unknown, path: string): Problem[] {
  const tried = forms.map((form) => problemsOf(form, value, path));
  if (tried.some((problems) => problems.length === 0)) return [];
  const near = forms.filter((form) => hasType(value, form["type"]));
  const [only] = near;
  if (only !== undefined && near.length === 1) return problemsOf(only, value, path);
  return [{ path, message: "has none of the allowed forms" }];
}

function hasType(value: unknown, type: unknown): boolean {
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "integer") return Number.isInteger(value);
  return typeof value === type;
}

/** Whether a value is an object of JSON: no array, no null. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function inside(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}
