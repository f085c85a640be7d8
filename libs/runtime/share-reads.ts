import { setTimeout as delay } from 'node:timers/promises';

/**
 * The one way to read a thing once for all who wait for it together. Who comes while a read of it
 * is under way waits for the next one, which all of them share: whoever gets an answer came before
 * it was asked for, so none is older than the question. Different keys do not wait for each other;
 * a read without a key is `shareReads(async () => …)`.
 *
 * A read that fails fails for all who shared it, and the next one asks anew. With `apartMs`, a read
 * begins that many milliseconds after the one before it, at the soonest.
 */
export function shareReads<Key = void, Value = unknown>(
  read: (key: Key) => Promise<Value>,
  { apartMs = 0 }: { apartMs?: number } = {},
): (key: Key) => Promise<Value> {
  const underWay = new Map<Key, Promise<unknown>>();
  const next = new Map<Key, Promise<Value>>();

  const begin = (key: Key): Promise<Value> => {
    next.delete(key);
    const answer = read(key);
    // Before it leaves, whoever came meanwhile is in `next`: two are never under way.
    const ended = Promise.allSettled(apartMs > 0 ? [answer, delay(apartMs)] : [answer]);
    underWay.set(
      key,
      ended.then(() => underWay.delete(key)),
    );
    return answer;
  };

  return (key) => {
    const waiting = next.get(key);
    if (waiting !== undefined) return waiting;
    const before = underWay.get(key);
    if (before === undefined) return begin(key);
    const answer = before.then(() => begin(key));
    next.set(key, answer);
    return answer;
  };
}
