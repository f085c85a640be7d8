import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { encodePaymentEvent } from '@triplock/contracts';
import {
  openPostgresContinuity,
  openPostgresLedger,
  settledPayment,
  settlementEvent,
} from '@triplock/ledger';
import { createLogger, createMetrics } from '@triplock/runtime';
import { aPayment, createTestDatabase, createTestTopic, emptyTestTopic } from '@triplock/testing';
import { openEventArchive, openEventArchiveReader } from '@triplock/transport';
import { watchContinuity } from './continuity.ts';
import { workerMetrics } from './metrics.ts';

const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** A ledger with an archive, and whoever watches over it. */
async function aWatched(context: TestContext) {
  const store = await createTestDatabase(context);
  const topic = await createTestTopic(context);
  const told = { ...topic, clientId: 'test', logger };
  const archive = openEventArchive(told);
  context.after(() => archive.close());
  const [owner, role] = [store.open(), store.open('triplock_ledger')];
  const ledger = openPostgresLedger(role);
  const continuity = openPostgresContinuity(role);
  const reader = openEventArchiveReader({ ...told, driver: 'platformatic' });
  /** A worker as it starts: what one knew before is of no use. */
  const aWorker = () => {
    const metrics = workerMetrics(createMetrics('test'));
    const { pass, requireWhole } = watchContinuity({
      continuity,
      archive: reader,
      metrics,
      logger,
    });
    const alarm = async () => (await metrics.setBack.get()).values[0]?.value;
    /** What it comes to, once nothing is left to be found out. */
    const look = async () => {
      while ((await pass()) > 0);
      return (await continuity.look()).state;
    };
    return { look, requireWhole, alarm };
  };
  /** Posts a book transfer, and has its event archived as a dispatcher does. */
  const tell = async () => {
    const payment = aPayment();
    const settlement = { result: { state: 'succeeded' as const }, settledAt: new Date() };
    await ledger.post([{ payment, traceparent, settlement }]);
    const event = settlementEvent(settledPayment(payment, settlement), 1);
    await archive.append([encodePaymentEvent(event).payload]);
    return event.event_id;
  };
  /** As on a standby that was behind. */
  const lose = async (id: string) => {
    await owner.query(
      `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1
       WHERE event_id = $1`,
      [id],
    );
    await owner.query('DELETE FROM ledger.outbox WHERE event_id = $1', [id]);
  };
  const onAnotherServer = () => owner.query(`UPDATE ledger.continuity SET server = 'another'`);
  return { owner, topic, continuity, tell, lose, aWorker, onAnotherServer };
}

test('on another server that has all that was told a worker goes on by itself', async (context) => {
  const { tell, aWorker, onAnotherServer } = await aWatched(context);
  await tell();
  const worker = aWorker();
  assert.throws(worker.requireWhole, /nothing is decided before/);
  assert.equal(await worker.look(), 'known');
  await tell();
  await onAnotherServer();
  await assert.rejects(tell(), { code: '55TL1' });
  assert.equal(await worker.look(), 'known');
  worker.requireWhole();
  assert.equal(await worker.alarm(), 0);
  await tell();
});

test('on one that lacks what was told every worker waits for rewind, also one that starts afterwards', async (context) => {
  const { owner, tell, lose, aWorker, onAnotherServer } = await aWatched(context);
  const lost = await tell();
  await lose(lost);
  await onAnotherServer();
  const worker = aWorker();
  assert.equal(await worker.look(), 'set-back');
  assert.throws(worker.requireWhole, /npm run rewind/);
  assert.equal(await worker.alarm(), 1);
  await assert.rejects(tell(), { code: '55TL1' });
  const next = aWorker();
  assert.equal(await next.look(), 'set-back');
  assert.throws(next.requireWhole, /npm run rewind/);
  await owner.query(
    'UPDATE ledger.continuity SET server = ledger.this_server(), set_back_at = NULL',
  );
  assert.equal(await worker.look(), 'known');
  worker.requireWhole();
  assert.equal(await worker.alarm(), 0);
});

test('what was archived before the last note is not asked for again, as it may have left the outbox', async (context) => {
  const { tell, lose, aWorker, onAnotherServer } = await aWatched(context);
  const old = await tell();
  assert.equal(await aWorker().look(), 'known');
  await lose(old);
  await tell();
  await onAnotherServer();
  assert.equal(await aWorker().look(), 'known');
});

test('a server whose note is older than all that Kafka still has may lack anything', async (context) => {
  const { topic, tell, aWorker, onAnotherServer } = await aWatched(context);
  assert.equal(await aWorker().look(), 'known');
  await tell();
  await emptyTestTopic(topic);
  await onAnotherServer();
  assert.equal(await aWorker().look(), 'set-back');
});
