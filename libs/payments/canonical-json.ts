/**
 * A value that JSON can carry; numbers are integers within ±(2^53 − 1) everywhere in this system.
 */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export type JsonObject = { readonly [name: string]: JsonValue | undefined };

/**
 * The canonical form of RFC 8785 (JCS): member names sorted by UTF-16 code units, no white space,
 * ECMAScript's own forms of numbers and strings. Members that are `undefined` are left out.
 *
 * Two bodies that say the same thing give the same text, whatever their order or spacing.
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  if (isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  let members = '';
  for (const name of Object.keys(value).sort()) {
    const member = value[name];
    if (member === undefined) continue;
    if (members !== '') members += ',';
    members += `${JSON.stringify(name)}:${canonicalJson(member)}`;
  }
  return `{${members}}`;
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}
