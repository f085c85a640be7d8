import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import type { TestRelay } from '@triplock/testing';
import type { OnceKey, OnceStore } from '../once.ts';

/** A store under test, and what only its owner can do to it. */
export type OnceUnderTest = {
  store: OnceStore;
  /** Opens the same store once more, as a second process does. */
  another(): Promise<OnceStore>;
  /** Makes a key so many milliseconds older, by changing what is stored. */
  age(step: Pick<OnceKey, 'scope' | 'key'>, ms: number): Promise<void>;
  /** The way by which `store` reaches what it stores in. */
  relay: TestRelay;
};

/** Opens a store that is closed after the test. */
export type OpenOnce = (test: TestContext) => Promise<OnceUnderTest>;

export const hourMs = 3_600_000;

/** How long a store may take to answer: a busy machine is no store that is away. */
export const answerTimeoutMs = 30_000;

/** A step of a scope of its own that nothing ends while the test runs. */
export function aStep() {
  const scope = `test-${randomBytes(8).toString('hex')}`;
  return {
    scope,
    key: 'one key',
    fingerprint: 'one request',
    leaseMs: hourMs,
    keepMs: 24 * hourMs,
  };
}

/** An effect that counts, and gives its number. */
export function counting() {
  let runs = 0;
  const effect = async () => ({ run: (runs += 1), at: new Date(0), text: '"\\😀é\u2028\r\n' });
  return { effect, runs: () => runs };
}
