import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import {
  DeleteTableCommand,
  DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb';
import { createLogger } from '@triplock/runtime';
import { createTestRelay, eventually, testNamespace } from '@triplock/testing';
import { createTestTable } from './test/test-table.ts';
import {
  ClaimsUnavailableError,
  type ClaimRequest,
  type OwnerToken,
  type ShownClaim,
} from '@triplock/claims';
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
import { claimItem, lookUp } from './claim-items.ts';
import { createClaimsTable } from './claims-table.ts';
import { openDynamoClaims, openDynamoWalk } from './dynamo-claims.ts';
import { connectDynamo, dynamoSettings, type Table } from './dynamo-client.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const address = await createTestTable({ after });
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
    // Record and marker are read, and the claim is counted, in an item that is not there at first:
    // refused, read, made, counted.
    const { lost } = relay.loseReply({ after: 6 });
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

  it('a restored table under the old name is noticed though its markers came with it', async (t) => {
    const own = await createTestTable(t);
    const [TableName, namespace] = [own.table, testNamespace('claims')];
    const claims = await openDynamoClaims({ ...own, logger, namespace });
    t.after(() => claims.close());
    /** Puts another table with this item in the place of the one that is there. */
    const restore = async (item: object, meanwhile: () => Promise<unknown>) => {
      await client.send(new DeleteTableCommand({ TableName }));
      await meanwhile();
      await createClaimsTable(own);
      await client.send(new PutItemCommand({ TableName, Item: item as never }));
    };
    const nobodyAsks = () => Promise.resolve();
    const somebodyAsks = () => assert.rejects(claims.ping(), ClaimsUnavailableError);
    for (const meanwhile of [somebodyAsks, nobodyAsks]) {
      const request = aClaim();
      await warmUp(claims, request);
      assert.deepEqual(await claims.read(request.txnId), { outcome: 'unknown' });
      const id = { S: `${namespace}#marker#${bucketOfClaim(request)}` };
      const { Item: marker } = await client.send(new GetItemCommand({ TableName, Key: { id } }));
      await restore(marker!, meanwhile);
      const isCold = async () => (await claims.read(request.txnId)).outcome === 'cold';
      // A table that was away is looked at anew; one that nobody missed, within seconds.
      if (meanwhile === somebodyAsks) assert.ok(await isCold());
      else await eventually(isCold);
    }
  });

  it('what DynamoDB has deleted of a claim is shown by no renewal', async (t) => {
    const { claims, namespace } = await openClaims(t);
    const request = aClaim();
    await warmUp(claims, request);
    await claims.claim(request);
    await address.deleteItems(`${namespace}#shown#`);
    await claims.renewShown([request]);
    const read = await claims.read(request.txnId);
    assert.ok(read.outcome === 'pending' && read.shown === undefined);
  });

  it('a table that could not be named once is named when it is back', async (t) => {
    const { relay } = await openClaims(t);
    const dynamo = connectDynamo({ ...address, emulator: relay.url, answerTimeoutMs: 15_000 });
    t.after(() => dynamo.close());
    const name = () => dynamo.inTime((table) => table.tableId());
    await relay.cut();
    await assert.rejects(name(), ClaimsUnavailableError);
    await relay.restore();
    assert.ok(await name());
  });

  it('a lease, a life and a loss last as long as they shall, however little a caller knows of the time', async (t) => {
    const [begin, second] = [Date.now(), 1_000];
    const layout = { namespace: testNamespace('claims'), leaseMs: 60 * second, shownMs: second };
    const living = { ...layout, lifeMs: 600 * second, claimsMax: 100 };
    const claims = await openDynamoClaims({ ...address, logger, ...layout });
    t.after(() => claims.close());
    const dynamo = connectDynamo({ ...address, answerTimeoutMs: 15_000 });
    t.after(() => dynamo.close());
    /** The table so many seconds after the beginning, by a clock that is unsure by so many. */
    const atTime = (table: Table, at: number, unsure: number): Table => {
      const [earliest, latest] = [begin + (at - unsure) * second, begin + (at + unsure) * second];
      return { ...table, now: () => ({ earliest, latest }) };
    };
    const claimAt = async (request: ClaimRequest, at: number, unsure: number) => {
      const token = randomUUID() as OwnerToken;
      const attempt = { layout: living, request, token, onWrite: () => undefined };
      const claim = (table: Table) => claimItem(atTime(table, at, unsure), attempt);
      return (await dynamo.inTime(claim)).outcome;
    };
    const [vague, exact, lost] = [aClaim(), aClaim(), aClaim()];
    for (const request of [vague, exact]) await warmUp(claims, request);
    assert.equal(await claimAt(vague, 0, 30), 'claimed');
    assert.equal(await claimAt(vague, 59, 0), 'in-flight');
    assert.equal(await claimAt(exact, 0, 0), 'claimed');
    assert.equal(await claimAt(exact, 80, 30), 'in-flight');
    const reuses = { ...exact, fingerprint: aFingerprint() };
    assert.equal(await claimAt(reuses, 620, 30), 'reused');
    assert.equal(await claimAt(reuses, 631, 30), 'claimed');
    await claims.markCold(bucketOfClaim(lost));
    await claims.noteLoss(bucketOfClaim(lost));
    const coldAt = async (at: number, unsure: number) => {
      const look = (table: Table) => lookUp(atTime(table, at, unsure), living, lost.txnId);
      return (await dynamo.inTime(look)).cold !== undefined;
    };
    assert.deepEqual([await coldAt(620, 30), await coldAt(720, 30)], [true, false]);
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
  });
});
