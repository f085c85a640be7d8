import type { Static, TObject, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { jsonPointer } from './json-pointer.ts';
import type { FieldProblem } from './problem.ts';

/** The parameters that were sent, or everything that is wrong with them (the first 50). */
export type ParsedListQuery<Schema extends TObject> =
  | { outcome: 'valid'; values: Static<Schema> }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

// A target of 8 KiB can hold thousands of parameters; the first few are enough to work with.
const errorsMax = 50;

/**
 * A parser of the query of a request target, without its `?`, as forms are encoded (a `+` is a
 * space). Nothing is guessed: an unknown, repeated or malformed parameter is an error.
 */
export function listQueryParser<Schema extends TObject>(schema: Schema) {
  const properties: Readonly<Record<string, TSchema & { description?: string }>> =
    schema.properties;
  const checks = new Map(Object.entries(properties).map(([name, each]) => [name, Compile(each)]));

  const refusal = (name: string, value: unknown): string | undefined => {
    const check = checks.get(name);
    if (check === undefined) return 'this parameter is not known';
    return check.Check(value) ? undefined : `expected ${properties[name]!.description}`;
  };

  return (query: string): ParsedListQuery<Schema> => {
    const values = new Map<string, unknown>();
    const errors: FieldProblem[] = [];
    for (const piece of query.split('&').filter((each) => each !== '')) {
      const [name, value] = parameterOf(piece);
      const detail = values.has(name) ? 'sent more than once' : refusal(name, value);
      if (detail !== undefined) errors.push({ pointer: jsonPointer([name]), detail });
      values.set(name, value);
    }
    if (errors.length > 0) return { outcome: 'invalid', errors: errors.slice(0, errorsMax) };
    return { outcome: 'valid', values: Object.fromEntries(values) as Static<Schema> };
  };
}

/** Only plain digits are a number: `1e1`, `+5` and `0x5` are none. */
function parameterOf(piece: string): [name: string, value: unknown] {
  const [encoded, ...rest] = piece.split('=');
  const name = decode(encoded!) ?? encoded!;
  const text = decode(rest.join('='));
  if (name === 'limit' && /^[1-9]\d{0,2}$/.test(text ?? '')) return [name, Number(text)];
  return [name, text];
}

/** `undefined` when it is not the percent-encoding of a text in UTF-8. */
function decode(encoded: string): string | undefined {
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
