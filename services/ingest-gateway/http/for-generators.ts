import { isDeepStrictEqual } from 'node:util';

/**
 * The document as generators of clients can use it: the same promises, in words that all of them
 * know. Seen with openapi-generator, oapi-codegen, ogen, openapi-python-client and
 * openapi-typescript.
 */
export function forGenerators<Document extends Described>(document: Document): Document {
  const { paths, components, ...others } = document;
  const shared: Record<string, Header> = {};
  for (const [path, operations] of Object.entries(paths)) {
    for (const operation of Object.values(operations)) {
      operation.tags = [tagOf(path)];
      for (const { headers = {} } of Object.values(operation.responses)) {
        for (const [name, header] of Object.entries(headers)) {
          headers[name] = asComponent(name, header as Header, shared);
        }
      }
    }
  }
  // A partner answers them and never sends them: clients that have them as calls do not compile.
  for (const { post } of Object.values(others.webhooks)) post['x-internal'] = true;
  const withHeaders = { ...components, headers: shared };
  return rewritten({ ...others, components: withHeaders, paths }) as Document;
}

/** What of a document is read or changed here. */
export type Described = {
  paths: Record<string, Record<string, Operation>>;
  webhooks: Record<string, { post: Record<string, unknown> }>;
  components: object;
};
type Header = { schema: unknown };
type Operation = {
  tags?: string[];
  responses: Record<string, { headers?: Record<string, unknown> }>;
};

/**
 * A reference to the header, which is defined once: an inline one of several answers becomes
 * several types of one name. Headers that differ in words alone, as `Location` does, are one.
 */
function asComponent(name: string, header: Header, shared: Record<string, Header>) {
  const component = name.replaceAll('-', '');
  const known = (shared[component] ??= header);
  if (!isDeepStrictEqual(known.schema, header.schema)) {
    throw new Error(`the header ${name} is of two forms: give one of them another name`);
  }
  return { $ref: `#/components/headers/${component}` };
}

/** A class of a client: what a path is about, which is its last noun but one of an act. */
function tagOf(path: string): string {
  const nouns = path.split('/').filter((part) => /^[a-z-]+$/.test(part) && part !== 'v1');
  const noun = nouns.findLast((part) => part.endsWith('s') && part !== 'secrets') ?? nouns[0]!;
  const [first, ...rest] = (noun.endsWith('s') ? noun : `${noun}s`).split('-');
  return [first!.charAt(0).toUpperCase() + first!.slice(1), ...rest].join(' ');
}

/**
 * In words that mean the same to whoever checks a value, and that clients compile with and obey:
 *
 * - An array that holds a thing once says it in its description: as a set of enums it compiles in
 *   no client that openapi-generator makes for Python.
 * - The one value that a field may have is an enum of one: ogen sends a `const` always, also where
 *   the field is optional and nobody set it, so that every payment asks for a later capture.
 */
function rewritten(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(rewritten);
  if (typeof part !== 'object' || part === null) return part;
  const { uniqueItems, const: only, ...fields } = part as Record<string, unknown>;
  const described = Object.fromEntries(
    Object.entries(fields).map(([name, field]) => [name, rewritten(field)]),
  );
  const said = only === undefined ? described : { ...described, enum: [only] };
  if (uniqueItems !== true) return said;
  const { description } = described;
  const once = 'each of them once';
  return {
    ...said,
    description: typeof description === 'string' ? `${description}; ${once}` : once,
  };
}
