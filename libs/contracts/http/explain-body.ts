import type { JsonObject, JsonValue } from '@triplock/payments';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import { jsonPointer } from './json-pointer.ts';
import type { FieldProblem } from './problem.ts';

/**
 * An object's schema as far as an explanation needs it; a field's description ends "expected …".
 */
export type BodySchema = {
  properties: Readonly<Record<string, TSchema>>;
  required?: readonly string[];
};

// A body of 64 KiB can hold thousands of wrong fields; the first few are enough to work with.
const errorsMax = 50;

/**
 * Tells every field of a body that is wrong, unknown or missing (the first 50). `undefined` means
 * that there was no body.
 *
 * @param explainInside looks into a wrong field for what exactly is wrong there.
 */
export function explainBody(
  schema: BodySchema,
  explainInside: (name: string, value: JsonValue) => FieldProblem[] = () => [],
): (json: JsonValue | undefined) => FieldProblem[] {
  const fields = compileEach(schema.properties);
  const expected = (name: string) => wanted(schema.properties[name]!);

  const explainField = (name: string, value: JsonValue): FieldProblem[] => {
    if (!Object.hasOwn(fields, name)) return [problem([name], 'this field is not known')];
    if (fields[name]!.Check(value)) return [];
    const inside = explainInside(name, value);
    return inside.length > 0 ? inside : [problem([name], expected(name))];
  };

  return (json) => {
    if (!isJsonObject(json)) return [{ pointer: '#', detail: 'expected a JSON object' }];
    const missing = (schema.required ?? []).filter((name) => !Object.hasOwn(json, name));
    return [
      ...missing.map((name) => problem([name], `missing: ${expected(name)}`)),
      ...Object.keys(json).flatMap((name) => explainField(name, json[name]!)),
    ].slice(0, errorsMax);
  };
}

/** What a schema wants, as the end of a complaint. */
export function wanted(schema: TSchema & { description?: string }): string {
  return `expected ${schema.description}`;
}

/** A complaint about one place of the body. */
export function problem(path: readonly string[], detail: string): FieldProblem {
  return { pointer: jsonPointer(path), detail };
}

/** One check for each of several schemas. */
export function compileEach(
  schemas: Readonly<Record<string, TSchema>>,
): Readonly<Record<string, ReturnType<typeof Compile>>> {
  return Object.fromEntries(Object.entries(schemas).map(([name, each]) => [name, Compile(each)]));
}

/** Whether a value is a JSON object, and no list and no null. */
export function isJsonObject(json: JsonValue | undefined): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}
