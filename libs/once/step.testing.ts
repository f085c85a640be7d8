import { randomBytes } from 'node:crypto';

export const hourMs = 3_600_000;

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
