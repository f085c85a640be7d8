import { after } from 'node:test';
import { createLogger } from '@triplock/runtime';
import { createTestRelay, createTestTable, testNamespace } from '@triplock/testing';
import { describeClaims } from '@triplock/claims/conformance';
import { createClaimsTable } from './create-claims-table.ts';
import { openDynamoClaims } from './dynamo-claims.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
// One table for the whole suite: every test has a namespace of its own.
const place = await createTestTable({ after }, createClaimsTable);

describeClaims('dynamodb', async (test, times) => {
  const namespace = testNamespace('claims');
  const relay = await createTestRelay(test, place.emulator);
  const open = async (emulator: string) => {
    const claims = await openDynamoClaims({ ...place, logger, emulator, namespace, ...times });
    test.after(() => claims.close());
    return claims;
  };
  return {
    claims: await open(relay.url),
    another: () => open(place.emulator),
    forget: () => place.deleteItems(`${namespace}#`),
    async age(txnId, ms) {
      await place.addTo(`${namespace}#claim#${txnId}`, { lease_until: -ms, expires_at: -ms });
    },
    relay,
  };
});
