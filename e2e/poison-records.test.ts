import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodePaymentAccepted, topics } from '@triplock/contracts';
import { aPayment, eventually } from '@triplock/testing';
import { type IHeaders, Kafka, logLevel, type Message } from 'kafkajs';
import { newKey } from './test/partner.ts';
import { onTheSystem } from './test/system.ts';

const on = onTheSystem();

type Poison = { reason: string; message: Message };

const traceparent = '00-11111111111111111111111111111111-2222222222222222-01';

/** A well-formed record of a payment that nobody sent over HTTP, changed by `spoil`. */
function spoiled(reason: string, spoil: (fields: Record<string, unknown>) => unknown): Poison {
  const record = encodePaymentAccepted(aPayment({ key: newKey('poison') }), traceparent);
  const fields = JSON.parse(record.value.toString()) as Record<string, unknown>;
  const value = Buffer.from(JSON.stringify(spoil(fields)));
  return {
    reason,
    message: { ...record, value, headers: { ...record.headers, 'x-origin': 'e2e' } },
  };
}

function poisons(): Poison[] {
  const headers = { traceparent, partner_id: 'acme' };
  return [
    { reason: 'not_json', message: { key: newKey(), value: '{"half":', headers } },
    { reason: 'not_json', message: { key: newKey(), value: Buffer.from([0xff, 0x00]), headers } },
    { reason: 'null_value', message: { key: newKey(), value: null, headers } },
    {
      reason: 'too_large',
      message: { key: newKey(), value: `"${'x'.repeat(300 * 1024)}"`, headers },
    },
    spoiled('unknown_schema', (fields) => ({ ...fields, schema: 2 })),
    spoiled('forged_id', (fields) => ({ ...fields, idempotency_key: 'another' })),
    spoiled('partner_mismatch', (fields) => fields),
  ].map((poison) =>
    poison.reason === 'partner_mismatch'
      ? {
          ...poison,
          message: {
            ...poison.message,
            headers: { ...poison.message.headers, partner_id: 'globex' },
          },
        }
      : poison,
  );
}

type DeadLetter = { value: Buffer | null; headers: IHeaders };

test('records that can never be posted become dead letters, bytes intact, and hold up nobody', async () => {
  const kafka = new Kafka({
    clientId: 'e2e',
    brokers: [on.system.kafka],
    logLevel: logLevel.NOTHING,
  });
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId: newKey('dead-letters') });
  const dead: DeadLetter[] = [];
  const sent = poisons();
  await Promise.all([producer.connect(), consumer.connect()]);
  try {
    await consumer.subscribe({ topic: topics.deadLetter, fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ message }) =>
        void dead.push({ value: message.value, headers: message.headers ?? {} }),
    });
    await producer.send({
      topic: topics.accepted,
      messages: sent.map(({ message }) => ({ ...message, partition: 3 })),
    });

    for (const { reason, message } of sent) {
      const bytes = message.value === null ? null : Buffer.from(message.value);
      const deadLetter = await eventually(
        async () =>
          dead.find(
            (each) =>
              String(each.headers['dead-letter.reason']) === reason && sameBytes(each.value, bytes),
          ),
        { withinMs: 30_000, what: `a dead letter for ${reason}` },
      );
      assert.equal(String(deadLetter.headers['dead-letter.topic']), topics.accepted);
      assert.equal(String(deadLetter.headers['dead-letter.partition']), '3');
      assert.match(String(deadLetter.headers['dead-letter.offset']), /^\d+$/);
      assert.equal(String(deadLetter.headers['traceparent']), traceparent);
    }
  } finally {
    await Promise.all([producer.disconnect(), consumer.disconnect()]);
  }
  const good = await Promise.all(
    Array.from({ length: 24 }, () => on.acme.pay(newKey(), { amount: 5, currency: 'EUR' })),
  );
  const ids = good.map((answer) => (JSON.parse(answer.body) as { id: string }).id);
  await eventually(async () => (await on.look.inLedger(ids)).size === ids.length);
});

function sameBytes(a: Buffer | null, b: Buffer | null): boolean {
  return a === null || b === null ? a === b : a.equals(b);
}
