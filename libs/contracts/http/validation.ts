import {
  hasCardNumber,
  isExemptEverywhere,
  mayLookLikeCard,
  namesSecurityCode,
  type CardNumbersIn,
  type JsonObject,
  type JsonValue,
} from '@triplock/payments';
import { Compile, type Static, type TObject, type TSchema } from '../schema.ts';
import { jsonPointer, type FieldProblem } from './problem.ts';

/**
 * An object's schema as far as an explanation needs it; a field's description ends "expected …".
 */
export type BodySchema = {
  properties: Readonly<Record<string, TSchema>>;
  required?: readonly string[];
};

// A body of 64 KiB can hold thousands of wrong fields, a target of 8 KiB as many parameters; the
// first few are enough to work with.
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
    if (!Object.hasOwn(fields, name)) return [fieldProblem([name], 'this field is not known')];
    if (fields[name]!.Check(value)) return [];
    const inside = explainInside(name, value);
    return inside.length > 0 ? inside : [fieldProblem([name], expected(name))];
  };

  return (json) => {
    if (!isJsonObject(json)) return [{ pointer: '#', detail: 'expected a JSON object' }];
    const missing = (schema.required ?? []).filter((name) => !Object.hasOwn(json, name));
    return [
      ...missing.map((name) => fieldProblem([name], `missing: ${expected(name)}`)),
      ...Object.keys(json).flatMap((name) => explainField(name, json[name]!)),
    ].slice(0, errorsMax);
  };
}

/** What a schema wants, as the end of a complaint. */
export function wanted(schema: TSchema & { description?: string }): string {
  return `expected ${schema.description}`;
}

/** A complaint about one place of the body. */
export function fieldProblem(path: readonly string[], detail: string): FieldProblem {
  return { pointer: jsonPointer(path), detail };
}

/** One check for each of several schemas. */
export function compileEach(
  schemas: Readonly<Record<string, TSchema>>,
): Readonly<Record<string, ReturnType<typeof Compile>>> {
  return Object.fromEntries(Object.entries(schemas).map(([name, each]) => [name, Compile(each)]));
}

const cardNumber =
  'looks like the number of a payment card, which is not kept here: send what is no card number';
const cardNumberName = `a name in it ${cardNumber}`;
const securityCode =
  "is named as a card's security code, which nobody may keep: leave it out or name it otherwise";

/**
 * Every text of a body, names and values of metadata included, that could be a card's number or is
 * named as its security code, but where this partner's texts may look like numbers. Whoever is
 * exempt everywhere is so from the names of security codes too. Nothing of the text is in what is
 * said about it.
 */
export function findCardData(body: JsonObject, exempt: CardNumbersIn): FieldProblem[] {
  if (isExemptEverywhere(exempt)) return [];
  return Object.entries(body).flatMap(([field, value]) => {
    if (typeof value === 'string') {
      const isNumber = hasCardNumber(value) && !mayLookLikeCard(exempt, field);
      return isNumber ? [fieldProblem([field], cardNumber)] : [];
    }
    if (!isJsonObject(value)) return [];
    return Object.entries(value).flatMap(([name, text]) => {
      if (hasCardNumber(name) && !mayLookLikeCard(exempt, field)) {
        return [fieldProblem([field], cardNumberName)];
      }
      if (namesSecurityCode(name)) return [fieldProblem([field, name], securityCode)];
      const isNumber =
        typeof text === 'string' &&
        hasCardNumber(text) &&
        !mayLookLikeCard(exempt, `${field}.${name}`);
      return isNumber ? [fieldProblem([field, name], cardNumber)] : [];
    });
  });
}

/** Whether a value is a JSON object, and no list and no null. */
export function isJsonObject(json: JsonValue | undefined): json is JsonObject {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

/** The parameters that were sent, or everything that is wrong with them (the first 50). */
export type ParsedListQuery<Schema extends TObject> =
  | { outcome: 'valid'; values: Static<Schema> }
  | { outcome: 'invalid'; errors: readonly FieldProblem[] };

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
