import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, describe, it, type TestContext } from 'node:test';
import type { Queryable } from '@triplock/postgres';
import { createTestTopic, eventually, testNamespace } from '@triplock/testing';
import { Kafka, logLevel, type EachMessagePayload } from 'kafkajs';
import { EffectFailedError, once } from './once.ts';
import {
  EffectInFlightError,
  idempotentConsumer,
  type ConsumedRecord,
} from './idempotent-consumer.ts';
import { createOnceDatabase } from './test/once-database.ts';
import { aStep } from './test/once-under-test.ts';

const { database, store } = await createOnceDatabase({ after });

const keepMs = 86_400_000;
const deleteEveryMs = 300_000;
const kept = { retentionMs: keepMs / 2, segmentMs: keepMs / 2 - deleteEveryMs - 1 };
const orderOf = ({ message }: Pick<ConsumedRecord, 'message'>) => message.key!.toString();

/** A topic with records `key=value`, and a consumer of it. */
async function aTopic(t: TestContext, records: readonly string[]) {
  const { brokers, topic } = await createTestTopic(t);
  const kafka = new Kafka({ clientId: 'test', brokers, logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({
    topic,
    messages: records.map((record) => ({ key: record.split('=')[0]!, value: record })),
  });
  await producer.disconnect();

  /** Handles all records, and once more from the earliest offset, as a replay of the topic does. */
  async function consumeTwice(handle: (record: EachMessagePayload) => Promise<void>) {
    const consumer = kafka.consumer({
      groupId: testNamespace('group'),
      retry: { initialRetryTime: 50 },
    });
    let ends = 0;
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({
      eachMessage: async (record) => {
        await handle(record);
        if (Number(record.message.offset) === records.length - 1) ends += 1;
      },
    });
    const limits = { withinMs: 60_000, what: 'the last record' };
    try {
      await eventually(() => Promise.resolve(ends === 1), limits);
      consumer.seek({ topic, partition: 0, offset: '0' });
      await eventually(() => Promise.resolve(ends === 2), limits);
    } finally {
      await consumer.disconnect();
    }
  }
  return { consumeTwice };
}

async function effectsOf(scope: string): Promise<string[]> {
  const sql = 'SELECT what FROM effects WHERE scope = $1 ORDER BY what';
  return (await database.query<{ what: string }>(sql, [scope])).map(({ what }) => what);
}

/** A record about an order, without a value. */
function aRecord({ order, offset }: { order: string; offset: string }) {
  return {
    topic: 'orders',
    partition: 0,
    message: { key: Buffer.from(order), offset, value: null },
  };
}

describe('a consumer of records', () => {
  it('has each effect once: produced twice, redelivered after a crash, replayed from the start', async (t) => {
    const { scope } = aStep();
    const { consumeTwice } = await aTopic(t, ['1=a', '2=b', '1=a', '3=c', '3=other']);
    const refused: string[] = [];
    const write = async (tx: Queryable, { message }: EachMessagePayload) => {
      await tx.query('INSERT INTO effects VALUES ($1, $2)', [scope, message.value!.toString()]);
    };
    const onRefused = async ({ message }: EachMessagePayload, why: EffectFailedError) => {
      refused.push(`${message.value!.toString()}: ${why.code}`);
    };
    const handle = idempotentConsumer(
      { database, scope, keepMs, ...kept, keyOf: orderOf, onRefused },
      write,
    );

    let crashes = 1;
    await consumeTwice(async (record) => {
      await handle(record);
      // Committed in the database and not yet in Kafka: the record is delivered again.
      if (orderOf(record) === '2' && crashes-- > 0) throw new Error('a crash');
    });
    assert.ok(crashes < 0, 'nothing crashed, or nothing was delivered again');
    assert.deepEqual(await effectsOf(scope), ['1=a', '2=b', '3=c']);
    assert.deepEqual(refused, ['3=other: key_reused', '3=other: key_reused']);
  });

  it('what can never take effect is handed over and holds up nobody', async () => {
    const { scope } = aStep();
    const refused: string[] = [];
    const onRefused = async (_record: unknown, { code }: EffectFailedError) => {
      refused.push(code);
    };
    let runs = 0;
    const options = { database, scope, keepMs, ...kept, keyOf: orderOf, onRefused };
    const handle = idempotentConsumer(options, async () => {
      runs += 1;
      throw new EffectFailedError('no_such_order', 'there is no such order');
    });
    for (const order of ['7', '7', '8']) await handle(aRecord({ order, offset: order }));
    assert.deepEqual(refused, ['no_such_order', 'no_such_order', 'no_such_order']);
    assert.equal(runs, 2);
  });

  it('what cannot be handed over is delivered again', async () => {
    const { scope } = aStep();
    const onRefused = () => Promise.reject(new Error('the broker is away'));
    const options = { database, scope, keepMs, ...kept, keyOf: orderOf, onRefused };
    const handle = idempotentConsumer(options, () =>
      Promise.reject(new EffectFailedError('no_such_order', 'there is no such order')),
    );
    await assert.rejects(handle(aRecord({ order: '7', offset: '7' })), /the broker is away/);
  });

  it('a record whose key is at work outside of a transaction is delivered again', async () => {
    const step = { ...aStep(), key: '7', fingerprint: createHash('sha256').digest('hex') };
    const onRefused = () => Promise.reject(new Error('nothing is to be refused'));
    const options = { database, scope: step.scope, keepMs, ...kept, keyOf: orderOf, onRefused };
    const handle = idempotentConsumer(options, async () => assert.fail('it is at work'));
    const record = aRecord({ order: '7', offset: '7' });
    await once(store, step, async () => {
      await assert.rejects(handle(record), EffectInFlightError);
    });
    await handle(record);
  });

  it('a topic made anew begins at offset 0 again, and its records take effect', async () => {
    const { scope } = aStep();
    const onRefused = () => Promise.reject(new Error('nothing is to be refused'));
    const options = { database, scope, keepMs, ...kept, onRefused };
    // The offset is no key, so nobody gets it unasked.
    // @ts-expect-error keyOf is missing
    void (() => idempotentConsumer(options, async () => {}));
    const handle = idempotentConsumer(
      { ...options, keyOf: orderOf },
      async (tx, { message }: ReturnType<typeof aRecord>) => {
        await tx.query('INSERT INTO effects VALUES ($1, $2)', [scope, orderOf({ message })]);
      },
    );
    for (const order of ['old', 'old', 'new']) await handle(aRecord({ order, offset: '0' }));
    assert.deepEqual(await effectsOf(scope), ['new', 'old']);
  });

  it('what fails for the moment is thrown, and the next delivery has the effect', async () => {
    const { scope } = aStep();
    let tries = 0;
    const onRefused = () => Promise.reject(new Error('nothing is to be refused'));
    const handle = idempotentConsumer(
      { database, scope, keepMs, ...kept, keyOf: orderOf, onRefused },
      async (tx) => {
        await tx.query('INSERT INTO effects VALUES ($1, $2)', [scope, 'done']);
        if ((tries += 1) === 1) throw new Error('a time-out');
      },
    );
    const record = aRecord({ order: '7', offset: '7' });
    await assert.rejects(handle(record), /a time-out/);
    await handle(record);
    assert.deepEqual(await effectsOf(scope), ['done']);
  });

  it('keys that would be forgotten before their records are refused', () => {
    const onRefused = () => Promise.resolve();
    const wrap = (times: typeof kept) =>
      idempotentConsumer(
        { database, scope: 'short', keepMs, ...times, keyOf: orderOf, onRefused },
        async () => {},
      );
    wrap(kept);
    const { retentionMs, segmentMs } = kept;
    // Kafka deletes a segment when its newest record is old enough: its oldest one is older by all
    // the time that the segment took to fill.
    for (const times of [
      { retentionMs: keepMs, segmentMs: 0 },
      { retentionMs: retentionMs + 1, segmentMs },
      { retentionMs, segmentMs: segmentMs + 1 },
      { retentionMs: Infinity, segmentMs },
    ]) {
      assert.throws(() => wrap(times), RangeError);
    }
  });
});
