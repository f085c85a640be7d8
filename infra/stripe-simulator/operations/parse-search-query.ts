/** One condition of a search, as https://docs.stripe.com/search#search-query-language writes it. */
export type Condition = {
  readonly negated: boolean;
  /** `amount`, or `metadata` with its key. */
  readonly field: string;
  readonly key?: string;
  readonly operator: ':' | '~' | '>' | '<' | '>=' | '<=';
  /** Null asks whether the field is there at all. */
  readonly value: string | null;
};

export type SearchQuery = {
  readonly joined: 'and' | 'or';
  readonly conditions: readonly Condition[];
};

// -metadata['order']:'6735' | amount>=1000 | description~"coffee" | metadata["a"]:null
const clause =
  /^(-?)([a-z_]+)(?:\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\])?(:|~|>=|<=|>|<)(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(null|-?\d+))(?=\s|$)/i;
const joint = /^\s+(?:(and|or)\s+)?/i;

/**
 * Undefined when the text is no query. "You can't combine AND and OR"; nothing between means AND.
 */
export function parseSearchQuery(text: string): SearchQuery | undefined {
  const conditions: Condition[] = [];
  const joints = new Set<string>();
  let rest = text.trim();
  for (;;) {
    const found = clause.exec(rest);
    if (found === null) return undefined;
    conditions.push(toCondition(found));
    rest = rest.slice(found[0].length);
    if (rest === '') break;
    const between = joint.exec(rest);
    if (between === null) return undefined;
    joints.add((between[1] ?? 'and').toLowerCase());
    rest = rest.slice(between[0].length);
  }
  if (joints.size > 1) return undefined;
  return { joined: joints.has('or') ? 'or' : 'and', conditions };
}

function toCondition(found: RegExpExecArray): Condition {
  const [, minus, field, keyOne, keyTwo, operator, one, two, bare] = found;
  const key = keyOne ?? keyTwo;
  const quoted = one ?? two;
  const value = quoted === undefined ? bare! : unescape(quoted);
  return {
    negated: minus === '-',
    field: field!.toLowerCase(),
    ...(key !== undefined && { key: unescape(key) }),
    operator: operator as Condition['operator'],
    value: quoted === undefined && value.toLowerCase() === 'null' ? null : value,
  };
}

function unescape(quoted: string): string {
  return quoted.replaceAll(/\\(.)/g, '$1');
}
