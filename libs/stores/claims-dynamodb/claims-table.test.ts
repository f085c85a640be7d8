import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import {
  DeleteTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { aClaim, expectOutcome, warmUp } from '@triplock/claims/test';
import { createLogger } from '@triplock/runtime';
import { testNamespace } from '@triplock/testing';
import { createTestTable } from './test/test-table.ts';
import { createClaimsTable, DynamoTableError } from './claims-table.ts';
import { openDynamoClaims, openDynamoWalk } from './dynamo-claims.ts';
import { dynamoSettings } from './dynamo-client.ts';
import { asTheService } from './test/as-the-service.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const address = await createTestTable({ after });

/** A table of the service, with its time to live, and what is asked of it. */
async function openService(t: TestContext) {
  const table = testNamespace();
  const { url: emulator, requests } = await asTheService(t, address.emulator);
  const service = { region: address.region, table, emulator };
  const admin = new DynamoDBClient(dynamoSettings(service));
  const client = new DynamoDBClient(dynamoSettings(address));
  t.after(async () => {
    admin.destroy();
    await client.send(new DeleteTableCommand({ TableName: table }));
    client.destroy();
  });
  return {
    service,
    requests,
    table,
    async leaving(TableName: string) {
      const asked = await admin.send(new DescribeTimeToLiveCommand({ TableName }));
      return asked.TimeToLiveDescription;
    },
    async setLeaving(TableName: string, AttributeName: string, Enabled: boolean) {
      const TimeToLiveSpecification = { AttributeName, Enabled };
      await admin.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
    },
  };
}

test('items leave by leaves_at, also those of a table that was made by half before', async (t) => {
  const { service, leaving, setLeaving, table } = await openService(t);
  // Two gateways may make it at once.
  const made = await Promise.all([createClaimsTable(service), createClaimsTable(service)]);
  assert.deepEqual(made.toSorted(), ['created', 'was there']);
  const byIt = { AttributeName: 'leaves_at', TimeToLiveStatus: 'ENABLED' };
  assert.deepEqual(await leaving(table), byIt);
  await setLeaving(table, 'leaves_at', false);
  assert.equal(await createClaimsTable(service), 'was there');
  assert.deepEqual(await leaving(table), byIt);
  const claims = await openDynamoClaims({ ...service, logger, namespace: 'any' });
  await claims.close();
});

test('a table whose items leave by anything else is refused, and left as it is', async (t) => {
  const { service, leaving, setLeaving, table } = await openService(t);
  await createClaimsTable(service);
  await setLeaving(table, 'leaves_at', false);
  await setLeaving(table, 'accepted_at', true);
  const open = openDynamoClaims({ ...service, logger, namespace: 'any' });
  await assert.rejects(open, DynamoTableError);
  assert.equal(await createClaimsTable(service), 'was there');
  assert.equal((await leaving(table))?.AttributeName, 'accepted_at');
});

test('whatever is read is read as it was last written, which the service does only when asked', async (t) => {
  const { service, requests } = await openService(t);
  await createClaimsTable(service);
  const names = { ...service, logger, namespace: testNamespace('claims') };
  const claims = await openDynamoClaims(names);
  const walk = await openDynamoWalk(names);
  t.after(() => Promise.all([claims.close(), walk.close()]));
  const request = aClaim();
  await warmUp(claims, request);
  const { token } = expectOutcome(await claims.claim(request), 'claimed');
  expectOutcome(await claims.claim(request), 'in-flight');
  await claims.complete({ ...request, token });
  await claims.read(request.txnId);
  await claims.renewShown([request]);
  assert.equal((await walk.walk({ limit: 10 })).claims.length, 1);
  const reads = requests.filter(({ operation }) =>
    /^(Get|BatchGet|Query|Scan|TransactGet)/.test(operation),
  );
  assert.ok(reads.length > 5);
  const stale = reads.filter(({ input }) => input['ConsistentRead'] !== true);
  assert.deepEqual(stale, []);
});

test('making the table again leaves it as it is', async () => {
  assert.equal(await createClaimsTable(address), 'was there');
});
