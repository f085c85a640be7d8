import { keyScopes, Problem, type KeyScope } from '@triplock/contracts';

/**
 * What a route needs of an API key: `any`, whatever its scope; `read` and `pay`, one that is for
 * that; `full`, one that is for everything, which suffices everywhere.
 */
export type NeededScope = 'any' | KeyScope;

const sufficient: Readonly<Record<NeededScope, readonly KeyScope[]>> = {
  any: keyScopes,
  read: ['read', 'full'],
  pay: ['pay', 'full'],
  full: ['full'],
};

/** Whether a key of a scope may do what needs this one. */
export function suffices(has: KeyScope, needed: NeededScope): boolean {
  return sufficient[needed].includes(has);
}

/** The key is good, and not for this: 403, as RFC 6750 asks (section 3.1). Nothing was done. */
export function insufficientScope(has: KeyScope, needed: NeededScope): Problem {
  const detail = `This takes an API key of scope ${wordsOf(needed)}; yours is of scope \`${has}\`.`;
  return new Problem('insufficient_scope', detail, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${needed}"` },
  });
}

/** What the OpenAPI document says of it. */
export function describeScope(needed: NeededScope): string {
  return needed === 'any' ? 'Every API key may.' : `Takes an API key of scope ${wordsOf(needed)}.`;
}

function wordsOf(needed: NeededScope): string {
  return sufficient[needed].map((each) => `\`${each}\``).join(' or ');
}
