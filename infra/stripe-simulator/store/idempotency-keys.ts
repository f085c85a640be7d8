import { createHash } from 'node:crypto';
import type { Params, ParamValue } from '../wire/params.ts';
import type { KeptAnswer } from './journal.ts';

/** What a key means for a request that carries it. */
export type KeyState =
  | { readonly outcome: 'first' }
  | { readonly outcome: 'in-use' }
  | { readonly outcome: 'other-path'; readonly path: string }
  | { readonly outcome: 'other-params' }
  | { readonly outcome: 'kept'; readonly answer: KeptAnswer };

/** A request as the idempotency layer sees it. */
export type KeyedRequest = {
  readonly key: string;
  readonly path: string;
  readonly fingerprint: string;
};

/** https://docs.stripe.com/api/idempotent_requests */
export type IdempotencyKeys = {
  /** Takes the key for this request when it is free; `release` or `keep` must follow then. */
  begin(request: KeyedRequest, at: number): KeyState;
  /** Frees a key whose request was refused before it was executed. */
  release(key: string): void;
  /** Keeps the answer, whatever it is: an executed request is answered the same way for a day. */
  keep(answer: KeptAnswer, at: number): void;
  clear(): void;
};

/** "You can remove keys from the system automatically after they're at least 24 hours old." */
const keptForMs = 24 * 60 * 60 * 1_000;

/** No key has been used yet. */
export function createIdempotencyKeys(): IdempotencyKeys {
  const kept = new Map<string, { answer: KeptAnswer; at: number }>();
  const inUse = new Map<string, KeyedRequest>();

  const findKept = (key: string, now: number) => {
    const found = kept.get(key);
    if (found === undefined || now - found.at < keptForMs) return found?.answer;
    kept.delete(key);
    return undefined;
  };
  return {
    begin(request, at) {
      const answer = findKept(request.key, at);
      const earlier = answer ?? inUse.get(request.key);
      if (earlier === undefined) {
        inUse.set(request.key, request);
        return { outcome: 'first' };
      }
      if (earlier.path !== request.path) return { outcome: 'other-path', path: earlier.path };
      if (earlier.fingerprint !== request.fingerprint) return { outcome: 'other-params' };
      return answer === undefined ? { outcome: 'in-use' } : { outcome: 'kept', answer };
    },
    release: (key) => void inUse.delete(key),
    keep(answer, at) {
      inUse.delete(answer.key);
      kept.delete(answer.key);
      kept.set(answer.key, { answer, at });
      // A map lists its oldest first: whatever a day has passed over leaves from the front.
      for (const [key, oldest] of kept) {
        if (at - oldest.at < keptForMs) break;
        kept.delete(key);
      }
    },
    clear() {
      kept.clear();
      inUse.clear();
    },
  };
}

/** Covers the path and the parameters, whatever the order in which they were written. */
export function fingerprintOf(path: string, params: Params): string {
  return createHash('sha256')
    .update(`${path}\n${JSON.stringify(sorted(params))}`)
    .digest('hex');
}

function sorted(value: ParamValue): unknown {
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return (value as readonly ParamValue[]).map(sorted);
  const pairs = Object.entries(value as Params).map(
    ([name, each]) => [name, sorted(each)] as const,
  );
  // An array of pairs and not an object, so that no name is special.
  return pairs.sort(([a], [b]) => (a < b ? -1 : 1));
}
