import assert from 'node:assert/strict';
import { after, describe, it, type TestContext } from 'node:test';
import {
  DescribeTimeToLiveCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { createLogger } from '@triplock/runtime';
import { createTestRelay, createTestTable, testNamespace } from '@triplock/testing';
import { ClaimsUnavailableError, type ShownClaim } from '@triplock/claims';
import { bucketCount } from '@triplock/contracts';
import { bucketOf } from '@triplock/payments';
import { describeClaims } from '@triplock/claims/conformance';
import {
  aClaim,
  aFingerprint,
  bucketOfClaim,
  expectOutcome,
  hourMs,
  warmUp,
  type OpenClaims,
} from '@triplock/claims/test';
import { createClaimsTable, DynamoTableError } from './claims-table.ts';
import { openDynamoClaims, openDynamoWalk } from './dynamo-claims.ts';
import { connectDynamo, dynamoSettings } from './dynamo-client.ts';
import { watchServiceClock } from './service-clock.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const address = await createTestTable({ after }, createClaimsTable);
const client = new DynamoDBClient(dynamoSettings(address));
after(() => client.destroy());

const openSuite: OpenClaims = async (test, times) => {
  const namespace = testNamespace('claims');
  const relay = await createTestRelay(test, address.emulator);
  const open = async (emulator: string) => {
    const claims = await openDynamoClaims({ ...address, logger, emulator, namespace, ...times });
    test.after(() => claims.close());
    return claims;
  };
  return {
    claims: await open(relay.url),
    another: () => open(address.emulator),
    async openWalk() {
      const emulator = relay.url;
      const walk = await openDynamoWalk({ ...address, logger, emulator, namespace, ...times });
      test.after(() => walk.close());
      return walk;
    },
    forget: () => address.deleteItems(`${namespace}#`),
    async age(txnId, ms) {
      await address.addTo(`${namespace}#claim#${txnId}`, { l: -ms, expires_at: -ms });
      await address.addTo(`${namespace}#shown#${txnId}`, { expires_at: -ms });
    },
    ageHeld: (claim, ms) => ageHeldItem(namespace, claim, ms),
    async bytes(txnId) {
      const id = { S: `${namespace}#claim#${txnId}` };
      const read = new GetItemCommand({ TableName: address.table, Key: { id } });
      const { Item: item } = await client.send(read);
      // As DynamoDB bills storage: names, texts, digits, and 100 bytes for the index.
      const sizes = Object.entries(item!).map(([name, { S = '', N = '' }]) => {
        return Buffer.byteLength(name) + Buffer.byteLength(S) + Math.ceil(N.length / 2) + 1;
      });
      return sizes.reduce((sum, size) => sum + size, 100);
    },
    relay,
  };
};

describeClaims('dynamodb', openSuite, { shownBytes: 'free' });

/** Makes what is held of the claim's partner in its bucket older, as it is counted. */
async function ageHeldItem(namespace: string, claim: ShownClaim, ms: number): Promise<void> {
  const id = { S: `${namespace}#held#${claim.partnerId}#${bucketOf(claim.txnId, bucketCount)}` };
  const { table: TableName } = address;
  const { Item: item } = await client.send(new GetItemCommand({ TableName, Key: { id } }));
  const hours = Math.floor(ms / hourMs);
  const aged = Object.entries(item!).map(([name, value]) => {
    if (name === 'hour') return [name, { N: `${Number(value.N) - hours}` }];
    return [/^h\d+$/.test(name) ? `h${Number(name.slice(1)) - hours}` : name, value];
  });
  await client.send(new PutItemCommand({ TableName, Item: Object.fromEntries(aged) }));
}

async function openClaims(t: TestContext) {
  const namespace = testNamespace('claims');
  const relay = await createTestRelay(t, address.emulator);
  const claims = await openDynamoClaims({ ...address, logger, emulator: relay.url, namespace });
  t.after(() => claims.close());
  return { claims, namespace, relay };
}

describe('the table of the claims', () => {
  it('a claim whose answer was lost is sent again and known as its own', async (t) => {
    const { claims, relay } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    // Record and marker are read, and the claim is counted, in an item that is not there at first.
    const { lost } = relay.loseReply({ after: 5 });
    expectOutcome(await claims.claim(request), 'claimed');
    await lost;
    expectOutcome(await claims.claim(request), 'in-flight');
  });

  it('another table under the name is noticed: old claims count, silence does not', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const [kept, lost] = [aClaim(), aClaim()];
    for (const request of [kept, lost]) await warmUp(claims, request);
    await claims.claim(kept);
    // What a restored table holds: markers that name the table that was saved.
    const marker = `${namespace}#marker#${bucketOfClaim(lost)}`;
    await address.set(marker, { table_id: 'the one that was saved' });
    expectOutcome(await claims.claim({ ...kept, fingerprint: aFingerprint() }), 'reused');
    assert.deepEqual(await claims.claim(lost), { outcome: 'cold' });
    const { epoch } = await claims.noteLoss(bucketOfClaim(lost));
    assert.deepEqual(await claims.claim(lost), { outcome: 'cold', epoch });
  });

  it('a step that ends while the table is looked at leaves the others their answer', async (t) => {
    const dynamo = connectDynamo({ ...address, answerTimeoutMs: 15_000 });
    t.after(() => dynamo.close());
    const throttled = dynamo.inTime(async (table) => {
      void table.tableId();
      throw new Error('throttled');
    });
    const named = dynamo.inTime((table) => table.tableId());
    await assert.rejects(throttled, ClaimsUnavailableError);
    assert.ok(await named);
  });

  it('DynamoDB may delete an item only after its claim has expired', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    const id = { S: `${namespace}#claim#${request.txnId}` };
    const read = new GetItemCommand({ TableName: address.table, Key: { id } });
    const { Item: item } = await client.send(read);
    assert.ok(Number(item!['leaves_at']!.N) * 1_000 > Number(item!['expires_at']!.N));
    const asked = new DescribeTimeToLiveCommand({ TableName: address.table });
    const { TimeToLiveDescription: leaving } = await client.send(asked);
    assert.deepEqual(leaving, { AttributeName: 'leaves_at', TimeToLiveStatus: 'ENABLED' });
  });

  it('a table whose items leave by anything else is refused', async (t) => {
    const other = await createTestTable(t, createClaimsTable);
    const TableName = other.table;
    const setting = (AttributeName: string, Enabled: boolean) =>
      new UpdateTimeToLiveCommand({
        TableName,
        TimeToLiveSpecification: { AttributeName, Enabled },
      });
    await client.send(setting('leaves_at', false));
    await client.send(setting('accepted_at', true));
    await assert.rejects(
      openDynamoClaims({ ...other, logger, namespace: 'any' }),
      DynamoTableError,
    );
  });

  it('making the table again leaves it as it is', async () => {
    assert.equal(await createClaimsTable(address), 'was there');
  });
});

/** What a service whose clock is `offset` ahead of the monotonic one puts into its Date header. */
const dateAt = (offset: number, at: number) => new Date(Math.floor((at + offset) / 1_000) * 1_000);

describe('the time of the service', () => {
  it('the interval always holds the time of the service, and answers make it narrow', () => {
    const exchange = fc.record({
      pause: fc.double({ min: 0, max: 400, noNaN: true }),
      there: fc.double({ min: 0, max: 200, noNaN: true }),
      back: fc.double({ min: 0, max: 200, noNaN: true }),
    });
    const offsets = fc.double({ min: -1e12, max: 1e12, noNaN: true });
    fc.assert(
      fc.property(offsets, fc.array(exchange, { minLength: 1 }), (offset, exchanges) => {
        const clock = watchServiceClock();
        // In the past of the real monotonic clock, which `now` reads.
        let at = performance.now() - 100_000;
        for (const { pause, there, back } of exchanges) {
          const sentAt = at + pause;
          const date = dateAt(offset, sentAt + there);
          const receivedAt = sentAt + there + back;
          clock.learn({ sentAt, receivedAt, date });
          at = receivedAt;
          const { earliest, latest } = clock.now();
          const truth = performance.now() + offset;
          assert.ok(earliest <= truth + 1 && truth - 1 <= latest, `${earliest} ${truth} ${latest}`);
        }
      }),
    );
  });

  it('answers spread over a second tell the time to a tenth of it', () => {
    const clock = watchServiceClock();
    const begin = performance.now() - 2_000;
    for (let each = 0; each < 20; each += 1) {
      const sentAt = begin + each * 97;
      clock.learn({ sentAt, receivedAt: sentAt + 4, date: dateAt(5_000_000, sentAt + 2) });
    }
    const { earliest, latest } = clock.now();
    assert.ok(latest - earliest < 250, `${latest - earliest} ms wide`);
  });

  it('a service whose clock was set is believed anew', () => {
    const clock = watchServiceClock();
    const sentAt = performance.now();
    clock.learn({ sentAt, receivedAt: sentAt + 1, date: dateAt(0, sentAt) });
    clock.learn({ sentAt: sentAt + 1, receivedAt: sentAt + 2, date: dateAt(-3_600_000, sentAt) });
    const hoursAgo = (performance.now() - clock.now().latest) / 3_600_000;
    assert.ok(Math.abs(hoursAgo - 1) < 0.01, `${hoursAgo} h`);
  });

  it('a service that never answered has no time', () => {
    const clock = watchServiceClock();
    clock.learn({ sentAt: 0, receivedAt: 1, date: new Date('no date') });
    assert.throws(() => clock.now(), /is not known yet/);
  });
});
