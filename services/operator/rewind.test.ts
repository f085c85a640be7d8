import assert from 'node:assert/strict';
import { after, test, type TestContext } from 'node:test';
import { encodePaymentAccepted, encodePaymentEvent } from '@triplock/contracts';
import { settledPayment, settlementEvent } from '@triplock/ledger';
import { createLogger } from '@triplock/runtime';
import {
  aPayment,
  commitTestOffset,
  createTestDatabase,
  createTestSubscription,
  createTestTopic,
  eventually,
  patientAppends,
  testNamespace,
} from '@triplock/testing';
import {
  openEventArchive,
  openGroupCommit,
  openTopicOffsets,
  runConsumer,
} from '@triplock/transport';
import { openOperator } from './test/run-operator.ts';

const runOperator = openOperator({ after });

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });

type Printed = {
  done: boolean;
  groups: { group: string; partitions: object[]; gone: object[] }[];
  events: number;
  atWork: string[];
};

/** Stores of one test's own, and a topic of five records that both groups have read. */
async function aRewoundSystem(context: TestContext) {
  const store = await createTestDatabase(context);
  const accepted = await createTestTopic(context);
  const deadLetters = await createTestTopic(context);
  const told = await createTestTopic(context);
  const pubsub = await createTestSubscription(context);
  const [workers, auditors] = [testNamespace('workers'), testNamespace('auditors')];
  const settings = {
    DATABASE_URL: store.url(),
    KAFKA_BROKERS: accepted.brokers.join(','),
    ACCEPTED_TOPIC: accepted.topic,
    DEAD_LETTER_TOPIC: deadLetters.topic,
    TOLD_TOPIC: told.topic,
    LEDGER_GROUP: workers,
    AUDITOR_GROUP: auditors,
    PUBSUB_PROJECT_ID: pubsub.projectId,
    PUBSUB_EMULATOR_HOST: pubsub.emulatorHost,
    EVENTS_SUBSCRIPTIONS: pubsub.subscription,
  };
  const kafka = { ...accepted, clientId: 'a-worker', logger };
  const log = openGroupCommit({ ...kafka, limits: patientAppends });
  context.after(() => log.close());
  const append = () => log.append(encodePaymentAccepted(aPayment(), ''));
  for (let n = 0; n < 2; n += 1) await append();
  const before = new Date();
  // Later than the second record by Kafka's clock, which is this one's and counts milliseconds.
  const since = await eventually(async () => Date.now() > before.getTime() + 1 && new Date());
  for (let n = 0; n < 3; n += 1) await append();
  for (const groupId of [workers, auditors]) {
    await commitTestOffset(accepted, { groupId, offset: 5 });
  }
  const positionOf = async (groupId: string) => {
    const offsets = openTopicOffsets({ ...kafka, groupId });
    const committed = await offsets.committed().finally(() => offsets.close());
    return Number(committed.get(0));
  };
  const rewind = (...words: string[]) => rewindWith({}, ...words);
  const rewindWith = (more: Readonly<Record<string, string>>, ...words: string[]) => {
    const asked = ['rewind', '--by', 'ada', '--why', 'failover', ...words];
    return runOperator(asked, { ...settings, ...more });
  };
  /** The evidence of an auditor that has read all five, of which one is not in the ledger. */
  const lackOf = async (offset: number) => {
    const owner = store.open();
    const { txnId, fingerprint } = aPayment();
    await owner.query(
      `INSERT INTO auditor.accepted_positions (topic, kafka_partition, next_offset)
       VALUES ($1, 0, 5)`,
      [accepted.topic],
    );
    await owner.query(
      `INSERT INTO auditor.accepted (txn_id, fingerprint, kind, partner_id, currency, amount,
         kafka_partition, kafka_offset, rest)
       VALUES ($1, decode($2, 'hex'), 'payment', 'acme', 'EUR', 1, 0, $3, sha256(''))`,
      [txnId, fingerprint, offset],
    );
  };
  /** Has events archived as a dispatcher does. */
  const archive = async (texts: readonly string[]) => {
    const into = openEventArchive({ ...told, clientId: 'a-dispatcher', logger });
    await into.append(texts).finally(() => into.close());
  };
  const owner = store.open();
  const acts = { rewind, rewindWith, lackOf, archive };
  return { store, owner, kafka, since, workers, auditors, positionOf, ...acts };
}

test('groups go back to the time, the workers’ to what the ledger lacks where that is earlier, once --yes is given', async (context) => {
  const system = await aRewoundSystem(context);
  const { owner, workers, auditors, positionOf, rewind, lackOf } = system;
  await lackOf(1);
  const since = ['--since', system.since.toISOString(), '--json'];
  const planned = await rewind(...since);
  assert.equal(planned.code, 0, planned.stderr);
  const plan = JSON.parse(planned.stdout) as Printed;
  assert.deepEqual([plan.done, plan.atWork, plan.events], [false, [], 0]);
  assert.deepEqual(
    plan.groups.map(({ group, partitions, gone }) => [group, partitions, gone]),
    [
      [workers, [{ partition: 0, from: 5, to: 1 }], []],
      [auditors, [{ partition: 0, from: 5, to: 2 }], []],
      [`${auditors}-dead-letters`, [{ partition: 0, from: 0, to: 0 }], []],
    ],
  );
  assert.deepEqual([await positionOf(workers), await positionOf(auditors)], [5, 5]);
  assert.deepEqual(await owner.query('SELECT FROM auditor.operator_acts'), []);

  const done = await rewind(...since, '--yes');
  assert.equal(done.code, 0, done.stderr);
  assert.equal((JSON.parse(done.stdout) as Printed).done, true);
  assert.deepEqual([await positionOf(workers), await positionOf(auditors)], [1, 2]);
  const acts = await owner.query('SELECT act, done_by, why FROM auditor.operator_acts');
  assert.deepEqual(acts, [{ act: 'rewind', done_by: 'ada', why: 'failover' }]);
});

test('while a service is at work nothing moves, and it is named', async (context) => {
  const system = await aRewoundSystem(context);
  const { store, kafka, workers, positionOf, rewind } = system;
  const session = store.open('triplock_notifier');
  await session.ping();
  const member = runConsumer({ ...kafka, groupId: workers, handle: async () => undefined });
  context.after(() => member.close());
  const since = ['--since', system.since.toISOString(), '--yes'];
  for (let joined = false; !joined;) {
    const { code, stderr } = await rewind(...since);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /still at work: .*Stop every service first/);
    joined = stderr.includes('a-worker');
  }
  assert.equal(await positionOf(workers), 5);
});

test('a service that is just ending is waited for', async (context) => {
  const { store, owner, workers, positionOf, rewind, lackOf, since } =
    await aRewoundSystem(context);
  await lackOf(1);
  await store.open('triplock_notifier').ping();
  const rewinding = rewind('--since', since.toISOString(), '--yes');
  await eventually(async () => {
    const [{ asked } = { asked: 0 }] = await owner.query<{ asked: number }>(
      `SELECT count(*)::int AS asked FROM pg_stat_activity
       WHERE datname = current_database() AND query LIKE '%lacking AS MATERIALIZED%'
         AND pid <> pg_backend_pid()`,
    );
    // The last of what a look asks.
    return asked > 0;
  });
  await owner.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND usename = 'triplock_notifier'`,
  );
  const { code, stderr } = await rewinding;
  assert.equal(code, 0, stderr);
  assert.equal(await positionOf(workers), 1);
});

test('what was told and the database lacks is in the outbox again, once, and waits to be published', async (context) => {
  const { owner, archive, rewind, since } = await aRewoundSystem(context);
  const payment = aPayment();
  const settled = { result: { state: 'succeeded' as const }, settledAt: new Date() };
  const event = settlementEvent(settledPayment(payment, settled), 1);
  const { payload } = encodePaymentEvent(event);
  const other = encodePaymentEvent({ ...event, timestamp: '2026-01-01T00:00:00.000Z' }).payload;
  // Copies of a dispatcher that died, something that is no event, and what was told anew.
  await archive([payload, '{}', payload]);
  await archive([other]);
  const words = ['--since', since.toISOString(), '--yes', '--json'];
  for (const expected of [1, 0]) {
    const done = await rewind(...words);
    // The first text stays, and that somebody was told the other one too is not passed over.
    assert.equal(done.code, 1, done.stderr);
    const { told } = JSON.parse(done.stdout) as { told: { restored: number; unreadable: number } };
    assert.partialDeepStrictEqual(told, {
      restored: expected,
      contested: [],
      altered: [event.event_id],
      unreadable: 1,
    });
    const rows = await owner.query('SELECT payload, state, sequence FROM ledger.outbox');
    assert.deepEqual(rows, [{ payload, state: 'pending', sequence: 1 }]);
  }
  const [{ tellings } = { tellings: 0 }] = await owner.query<{ tellings: number }>(
    `SELECT count(*)::int AS tellings FROM ledger.told
     WHERE adopted_at IS NULL AND state = 'succeeded' AND happened_at = $1`,
    [settled.settledAt],
  );
  assert.equal(tellings, 1);
});

test('workers go on once a rewind has done all of it, and not after half', async (context) => {
  const { owner, archive, rewind, rewindWith, since } = await aRewoundSystem(context);
  await owner.query(`UPDATE ledger.continuity SET server = 'another', posted_on = 'another'`);
  await archive(['{}', '{}']);
  const continuity = () =>
    owner.query(
      `SELECT server = ledger.this_server() AND posted_on = server AS here, archived, posted,
         set_back_at IS NULL AS whole
       FROM ledger.continuity`,
    );
  const words = ['--since', since.toISOString()];
  await rewind(...words);
  const before = { here: false, archived: {}, posted: {} };
  assert.deepEqual(await continuity(), [{ ...before, whole: true }]);
  const half = await rewindWith({ EVENTS_SUBSCRIPTIONS: 'nobody' }, ...words, '--yes');
  assert.notEqual(half.code, 0, half.stdout);
  assert.deepEqual(await continuity(), [{ ...before, whole: false }]);
  const done = await rewind(...words, '--yes');
  assert.equal(done.code, 0, done.stderr);
  // Workers begin where the groups went back to: at the start, where no auditor had been.
  const noted = { here: true, archived: { 0: '1' }, posted: { 0: '0' }, whole: true };
  assert.deepEqual(await continuity(), [noted]);
});

test('workers do not go on when PostgreSQL fails over once more in the middle of a rewind, before it is done again', async (context) => {
  const { owner, rewind, since } = await aRewoundSystem(context);
  const isWhole = async () => {
    const sql = `SELECT server = ledger.this_server() AND set_back_at IS NULL AS whole
                 FROM ledger.continuity`;
    return (await owner.query<{ whole: boolean }>(sql))[0]?.whole;
  };
  // As on a standby that takes over, the row is there and names another server.
  await owner.query(`
    CREATE FUNCTION fail_over() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      CREATE TEMP TABLE kept AS TABLE ledger.continuity;
      TRUNCATE ledger.continuity;
      INSERT INTO ledger.continuity TABLE kept;
      RETURN NULL;
    END $$`);
  await owner.query(
    'CREATE TRIGGER fails_over AFTER INSERT ON ledger.rewinds EXECUTE FUNCTION fail_over()',
  );
  const words = ['--since', since.toISOString(), '--yes'];
  const first = await rewind(...words);
  assert.equal(first.code, 1, first.stdout);
  assert.match(first.stderr, /failed over or was started again meanwhile.*do this again/);
  assert.equal(await isWhole(), false);
  await owner.query('DROP TRIGGER fails_over ON ledger.rewinds');
  // Somebody takes the row away for good measure: it is made anew.
  await owner.query('DELETE FROM ledger.continuity');
  const again = await rewind(...words);
  assert.equal(again.code, 0, again.stderr);
  assert.equal(await isWhole(), true);
});
