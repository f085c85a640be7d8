import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { PubSub } from '@google-cloud/pubsub';
import { topics } from '@triplock/contracts';
import { consumers } from '@triplock/pipeline';
import { eventually, openEmulator } from '@triplock/testing';
import { newKey } from './test/partner.ts';
import { command, onTheSystem } from './test/system.ts';

let pubsub: PubSub;

const on = onTheSystem(async ({ system }) => {
  pubsub = await openEmulator({ projectId: system.pubsubProject, emulatorHost: system.pubsub });
});
after(async () => {
  await pubsub.close();
});

type Row = { payload: string; event_id: string; txn_id: string; bucket: number };

/** A payment that has gone all the way, and its event as it was published. */
async function published(): Promise<{ row: Row; attributes: Record<string, string> }> {
  const { id } = JSON.parse((await on.acme.pay(newKey(), { amount: 9, currency: 'EUR' })).body) as {
    id: string;
  };
  await eventually(async () => (await on.look.webhooks(id)).length === 1);
  const rows = await on.look.ledger.query<Row>(
    'SELECT payload, event_id, txn_id, bucket FROM ledger.outbox WHERE txn_id = $1',
    [id],
  );
  const row = rows[0]!;
  const attributes = {
    event_id: row.event_id,
    event_type: 'payment.succeeded',
    txn_id: id,
    payment_id: id,
    sequence: '1',
    traceparent: '00-11111111111111111111111111111111-2222222222222222-01',
  };
  return { row, attributes };
}

async function publish(data: string, attributes: Record<string, string>): Promise<void> {
  await pubsub.topic(topics.events).publishMessage({ data: Buffer.from(data), attributes });
}

async function refusedBy(schema: 'notifier' | 'auditor', marker: string): Promise<boolean> {
  const rows = await on.look.database.query(
    `SELECT FROM ${schema}.refused_messages WHERE convert_from(data, 'UTF8') LIKE '%' || $1 || '%'`,
    [marker],
  );
  return rows.length > 0;
}

/** The schemas of those who keep an inbox. */
const schemas = consumers.map(({ schema }) => schema);

test('an event published twice has one effect, and an altered copy has none', async () => {
  const { row, attributes } = await published();
  await publish(row.payload, attributes);
  const forged = JSON.stringify({
    ...JSON.parse(row.payload),
    timestamp: '2020-01-01T00:00:00.000Z',
  });
  await publish(forged, attributes);
  await eventually(async () => {
    const [seen] = await on.look.database.query<{ copies: number; altered: number }>(
      'SELECT copies::int, altered::int FROM auditor.published WHERE event_id = $1',
      [row.event_id],
    );
    return seen !== undefined && seen.copies >= 2 && seen.altered >= 1;
  });
  for (const consumer of schemas) {
    await eventually(async () => {
      const alarms = await on.look.database.query(
        `SELECT FROM ${consumer}.altered_copies WHERE event_id = $1`,
        [row.event_id],
      );
      return alarms.length === 1;
    });
  }
  const webhooks = await on.look.webhooks(row.txn_id);
  assert.deepEqual(
    webhooks.map((each) => each.attempts),
    [1],
  );
  // The audit is right to complain about an altered copy; later promises want it green again.
  await on.look.database.query('UPDATE auditor.published SET altered = 0 WHERE event_id = $1', [
    row.event_id,
  ]);
  for (const consumer of schemas) {
    await on.look.database.query(`DELETE FROM ${consumer}.altered_copies WHERE event_id = $1`, [
      row.event_id,
    ]);
  }
});

test('messages that no guard can place are kept for people and hold up nobody', async () => {
  const { row, attributes } = await published();
  const { event_id: _dropped, ...noEventId } = attributes;
  const poisons: [string, Record<string, string>][] = [
    [row.payload, noEventId],
    [
      JSON.stringify({ ...JSON.parse(row.payload), type: 'payment.exploded' }),
      { ...attributes, event_type: 'payment.exploded' },
    ],
    ['not json', attributes],
    [
      JSON.stringify({ ...JSON.parse(row.payload), event_id: row.txn_id }),
      { ...attributes, event_id: row.txn_id },
    ],
  ];
  for (const [data, with_] of poisons) {
    const marker = newKey('poison');
    const marked = data.startsWith('{')
      ? data.replace(/^\{/, `{"marker":"${marker}",`)
      : `${data} ${marker}`;
    await publish(marked, with_);
    await eventually(() => refusedBy('notifier', marker));
    await eventually(() => refusedBy('auditor', marker));
  }
  await published();
});

test('a message that an older consumer refused is published again, and has one effect however often', async () => {
  const { row, attributes } = await published();
  const messageId = newKey('refused');
  await on.look.database.query(
    `INSERT INTO notifier.refused_messages
       (consumer, message_id, reason, detail, data, attributes)
     VALUES ('partner-notifier', $1, 'unknown_type', '', $2, $3)`,
    [messageId, Buffer.from(row.payload), JSON.stringify(attributes)],
  );
  const id = `refused:partner-notifier:${messageId}`;
  const redrive = ['dead-letters', 'redrive', id, '--why', 'upgraded'] as const;
  for (const [again, said] of [
    [[], /: redriven$/m],
    [[], /: redriven before, /],
    [['--again'], /: redriven$/m],
  ] as const) {
    const { stdout, stderr } = await command(...redrive, ...again);
    assert.match(stdout, said, stderr);
  }
  await eventually(async () => {
    const [seen] = await on.look.database.query<{ copies: number; altered: number }>(
      'SELECT copies, altered FROM auditor.published WHERE event_id = $1',
      [row.event_id],
    );
    assert.equal(seen?.altered, 0);
    return seen.copies >= 3;
  });
  assert.deepEqual(
    (await on.look.webhooks(row.txn_id)).map((each) => each.attempts),
    [1],
  );
  const { code } = await command('dead-letters', 'dismiss', id, '--why', 'it went on');
  assert.equal(code, 0);
});
