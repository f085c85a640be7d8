import { after } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestDatabase, createTestRelay, testNamespace } from '@triplock/testing';
import { describeClaims } from '@triplock/claims/conformance';
import { openPostgresClaims } from './postgres-claims.ts';
import { ageRow, forgetRows } from './test/claim-rows.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
// One database for the whole suite: every test has a namespace of its own.
const database = await createTestDatabase({ after });
const owner = database.open();

describeClaims('postgres', async (test, times) => {
  const namespace = testNamespace('claims');
  const url = database.url('triplock_claims');
  const relay = await createTestRelay(test, url);
  const open = async (way: string) => {
    const named = { namespace, applicationName: 'test', logger };
    const claims = await openPostgresClaims({ url: way, ...named, ...times });
    test.after(() => claims.close());
    return claims;
  };
  return {
    claims: await open(relay.url),
    another: () => open(url),
    forget: () => forgetRows(owner, namespace),
    age: (txnId, ms) => ageRow(owner, { namespace, txnId, ms }),
    relay,
  };
});
