import { after } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestRelay, testNamespace } from '@triplock/testing';
import { describeClaims } from '../claims.conformance.ts';
import { openPostgresClaims } from './postgres-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
// One database for the whole suite: every test has a namespace of its own.
const database = await createTestDatabase({ after });
const owner = database.open();

describeClaims('postgres', async (test, times) => {
  const namespace = testNamespace('claims');
  const url = database.url('triplock_claims');
  const relay = await createTestRelay(test, url);
  const open = (way: string) => {
    const named = { namespace, applicationName: 'test', logger };
    const claims = openPostgresClaims({ url: way, ...named, ...times });
    test.after(() => claims.close());
    return claims;
  };
  return {
    claims: open(relay.url),
    another: () => Promise.resolve(open(url)),
    async forget() {
      for (const table of ['claims', 'memory']) {
        await owner.query(`DELETE FROM claims.${table} WHERE namespace = $1`, [namespace]);
      }
    },
    async age(txnId, ms) {
      await owner.query(
        `UPDATE claims.claims
         SET lease_until = lease_until - $3 * interval '1 ms',
             expires_at = expires_at - $3 * interval '1 ms'
         WHERE namespace = $1 AND txn_id = $2`,
        [namespace, txnId, ms],
      );
    },
    relay,
  };
});
