import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent } from '@triplock/contracts';
import type { Fingerprint } from '@triplock/payments';
import { databaseErrorKind } from '@triplock/postgres';
import { aPayment, createTestDatabase } from '@triplock/testing';
import { settledPayment, settlementEvent } from '../outcomes.ts';
import { openPostgresContinuity } from './continuity.ts';
import { openPostgresLedger } from './payments.ts';
import { openPostgresRecovery } from './recovery.ts';
import { takeDueFrom } from './transactions.ts';

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';
const nothing = { archived: new Map(), posted: new Map() };
const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };

async function aLedger(context: TestContext) {
  const store = await createTestDatabase(context);
  const [owner, role] = [store.open(), store.open('triplock_ledger')];
  return {
    owner,
    role,
    ledger: openPostgresLedger(role),
    continuity: openPostgresContinuity(role),
    /** As after a failover: the row came along from the server before. */
    onAnotherServer: () =>
      owner.query(`UPDATE ledger.continuity SET server = 'another', posted_on = 'another'`),
  };
}

test('on a server that nobody has seen yet a worker can decide nothing, until it is noted as whole', async (context) => {
  const { role, ledger, continuity, onAnotherServer } = await aLedger(context);
  const posting = { payment: aPayment(), traceparent, settlement };
  const [pending, loser] = [aPayment(), aPayment()];
  await ledger.post([{ payment: pending, traceparent }]);
  await onAnotherServer();
  const look = await continuity.look();
  const { server, state } = look;
  assert.equal(state, 'unknown');
  const steps = [
    () => ledger.post([posting]),
    () => ledger.recordKeyConflict({ payment: loser, traceparent }),
    () => takeDueFrom(role)({ limit: 1, leaseMs: 1_000 }),
    () => ledger.settle({ txnId: pending.txnId, version: 2, traceparent, ...settlement }),
  ];
  for (const step of steps) {
    // Not now, rather than never: nothing is dead-lettered for it.
    await assert.rejects(step, (error: { code?: string }) => {
      assert.deepEqual([error.code, databaseErrorKind(error)], ['55TL1', 'transient']);
      return true;
    });
  }
  assert.equal(await continuity.noteWhole({ ...look, server: 'another' }, nothing), false);
  assert.equal((await continuity.look()).state, 'unknown');
  assert.equal(await continuity.noteWhole(look, { archived: new Map([[0, 7n]]) }), true);
  const until = { archived: new Map([[0, 7n]]), posted: new Map() };
  assert.deepEqual(await continuity.look(), { server, state: 'unread', until });
  for (const step of steps) await step();
});

test('a server that has all that was told is known once what was accepted was read again there', async (context) => {
  const { continuity, onAnotherServer } = await aLedger(context);
  const look = await continuity.look();
  const { server } = look;
  const noted = { archived: new Map([[0, 7n]]), posted: new Map([[1, 8n]]) };
  assert.equal(await continuity.noteWhole(look, noted), true);
  assert.deepEqual(await continuity.look(), { server, state: 'known', until: noted });
  await onAnotherServer();
  assert.equal(await continuity.notePosted(server, new Map()), false);
  assert.equal(await continuity.notePosted('another', new Map()), false);
  const next = await continuity.look();
  assert.equal(await continuity.noteWhole(next, { archived: new Map([[0, 9n]]) }), true);
  const { state, until } = await continuity.look();
  assert.deepEqual([state, until.posted], ['unread', noted.posted]);
  assert.equal(await continuity.notePosted(server, new Map([[1, 10n]])), true);
  const known = { archived: new Map([[0, 9n]]), posted: new Map([[1, 10n]]) };
  assert.deepEqual(await continuity.look(), { server, state: 'known', until: known });
});

test('on another server the provider is asked once for every dispute since the note, and for nothing else', async (context) => {
  const { owner, role, continuity, onAnotherServer } = await aLedger(context);
  const recovery = openPostgresRecovery(role);
  const archived = (next: bigint) => ({ archived: new Map([[0, next]]), posted: new Map() });
  assert.equal(await continuity.noteWhole(await continuity.look(), archived(1n)), true);
  assert.equal(await continuity.noteWhole(await continuity.look(), archived(2n)), true);
  assert.equal(await recovery.openRewind(), undefined);
  const [note] = await owner.query<{ at: Date }>('SELECT noted_at AS at FROM ledger.continuity');
  await onAnotherServer();
  const look = await continuity.look();
  const twice = [0, 1].map(() => continuity.noteWhole(look, { archived: new Map([[0, 2n]]) }));
  await Promise.all(twice);
  const open = await recovery.openRewind();
  assert.deepEqual(open?.since, note!.at);
  await recovery.disputesAsked(open);
  assert.equal(await recovery.openRewind(), undefined);
  assert.deepEqual(await owner.query('SELECT disputes_only FROM ledger.rewinds'), [
    { disputes_only: true },
  ]);
});

test('a note is not taken back by one that was begun before it, and no doubt by one that was begun before that', async (context) => {
  const { continuity } = await aLedger(context);
  const look = await continuity.look();
  const [older, newer] = [7n, 9n].map((next) => {
    return { archived: new Map([[0, next]]), posted: new Map([[0, next]]) };
  });
  assert.equal(await continuity.noteWhole(look, newer!), true);
  assert.equal(await continuity.noteWhole(look, older!), false);
  const noted = await continuity.look();
  assert.deepEqual(noted.until, newer);
  await continuity.doubt(look.server);
  assert.equal(await continuity.noteWhole(noted, newer!), false);
  assert.equal((await continuity.look()).state, 'unknown');
});

test('a request is unposted that has no row, unless its key stands for another one and that is reported', async (context) => {
  const { ledger, continuity } = await aLedger(context);
  const [posted, unposted] = [aPayment(), aPayment()];
  const loser = { ...posted, fingerprint: 'f'.repeat(64) as Fingerprint };
  await ledger.post([{ payment: posted, traceparent, settlement }]);
  const requests = [unposted, posted, loser, unposted];
  assert.deepEqual(await continuity.findUnposted(requests), [unposted, loser, unposted]);
  await ledger.recordKeyConflict({ payment: loser, traceparent });
  assert.deepEqual(await continuity.findUnposted(requests), [unposted, unposted]);
});

for (const [what, statements] of [
  [
    'made anew',
    [
      'CREATE TEMP TABLE kept AS TABLE ledger.continuity',
      'DROP TABLE ledger.continuity',
      `CREATE TABLE ledger.continuity AS TABLE kept`,
    ],
  ],
  [
    'emptied',
    [
      'CREATE TEMP TABLE kept AS TABLE ledger.continuity',
      'TRUNCATE ledger.continuity',
      'INSERT INTO ledger.continuity TABLE kept',
    ],
  ],
] as const) {
  test(`a dump that is put into the same database, whose tables are ${what} for it, is another server`, async (context) => {
    const { owner, role, ledger } = await aLedger(context);
    const step = () => ledger.post([{ payment: aPayment(), traceparent, settlement }]);
    // Sessions that have looked before, too.
    await step();
    await owner.transaction(async (tx) => {
      for (const statement of statements) await tx.query(statement);
      await tx.query('GRANT SELECT ON ledger.continuity TO triplock_ledger');
    });
    await assert.rejects(step(), { code: '55TL1' });
    assert.equal((await openPostgresContinuity(role).look()).state, 'unknown');
  });
}

test('a server that lacks something is not noted as whole, and one that was seen to be whole not as lacking', async (context) => {
  const { ledger, continuity, onAnotherServer } = await aLedger(context);
  const look = await continuity.look();
  const { server } = look;
  await continuity.noteSetBack(server);
  assert.equal((await continuity.look()).state, 'known');
  await onAnotherServer();
  await continuity.noteSetBack('another');
  assert.equal((await continuity.look()).state, 'unknown');
  await continuity.noteSetBack(server);
  assert.equal(await continuity.noteWhole(look, nothing), false);
  assert.equal((await continuity.look()).state, 'set-back');
  await assert.rejects(ledger.post([{ payment: aPayment(), traceparent }]), { code: '55TL1' });
});

test('an event is lacking that is not there, or is there in other words, and what is no event is not', async (context) => {
  const { ledger, continuity } = await aLedger(context);
  const payment = aPayment();
  await ledger.post([{ payment, traceparent, settlement }]);
  const textOf = (settledAt: Date) =>
    encodePaymentEvent(settlementEvent(settledPayment(payment, { ...settlement, settledAt }), 1))
      .payload;
  const count = (...texts: string[]) =>
    continuity.countLacking(texts.map((text) => Buffer.from(text)));
  assert.equal(await count(textOf(settlement.settledAt)), 0);
  assert.equal(await count(textOf(new Date(0)), textOf(settlement.settledAt)), 1);
  const other = settlementEvent(settledPayment(aPayment(), settlement), 1);
  assert.equal(await count(encodePaymentEvent(other).payload), 1);
  assert.equal(await count('', '{', 'null', '{}', '{"event_id":1}', '{"event_id":"x"}'), 0);
});
