import { randomBytes } from 'node:crypto';

/** A name that no other test uses: a Redis namespace, a consumer group, a partner. */
export function testNamespace(prefix = 'test'): string {
  return `${prefix}-${randomBytes(8).toString('hex')}`;
}
