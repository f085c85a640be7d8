import { randomUUID } from 'node:crypto';
import { aPayment } from '@triplock/testing';
import {
  add,
  change,
  eventOfPaid,
  paidEvent,
  paidOrder,
  refundInOrder,
  remove,
  rowsBy,
  succeededEvent,
} from '@triplock/testing/test';
import { auditedConsumers } from './consumers.ts';
import type { Harm, Rows } from './harm.ts';

/** Harms what each consumer has. */
const ofEach = (harmsOf: (consumer: (typeof auditedConsumers)[number]) => readonly Harm[]) =>
  auditedConsumers.flatMap(harmsOf);

/** The row of an event that becomes another event's. */
const eventBecoming = (id: string): Rows =>
  rowsBy(
    'event_id',
    ({ paidEvent: { event_id: event } }) => event,
    () => id,
  );

/** A consumer that has begun to forget, with nothing to forget yet. */
const horizonOf = (
  { name: consumer, schema }: (typeof auditedConsumers)[number],
  named: string = consumer,
): Rows => ({
  by: 'consumer',
  find: async ({ system }) => {
    await system.break(`SELECT ${schema}.reap_inbox($1, interval '1 day', 1)`, [consumer]);
    return { key: consumer, id: `${schema}.inbox/${named}` };
  },
});

/** The horizon of the outbox, of which there is one. */
const onlyHorizon: Rows = {
  by: 'only_row',
  find: () => Promise.resolve({ key: 'true', id: 'ledger.outbox' }),
};

/** For every check of inboxes some things that it exists to see. */
export const harmsToInboxes: Record<string, readonly Harm[]> = {
  'event-early': ofEach(({ name, schema }) => [
    add(`${schema}.early_events`, async ({ system }) => {
      const second = { ...succeededEvent(aPayment()), sequence: 2 };
      await system.consume(name, second);
      return second.event_id;
    }),
  ]),
  'inbox-unfounded': ofEach(({ name, schema }) => {
    const another = randomUUID();
    return [
      add(`${schema}.inbox`, async ({ system }) => {
        const forged = succeededEvent(aPayment());
        await system.consume(name, forged);
        return forged.event_id;
      }),
      change(`${schema}.inbox.event_id`, `'${another}'`, eventBecoming(another)),
      change(`${schema}.inbox.payload_hash`, `'another'`, paidEvent),
    ];
  }),
  'inbox-altered': ofEach(({ name, schema }) => [
    add(`${schema}.altered_copies`, async ({ system, refunded }) => {
      const altered = { ...refunded, timestamp: '2020-01-01T00:00:00.000Z' };
      await system.consume(name, altered);
      return refunded.event_id;
    }),
  ]),
  'cursor-differs-from-inbox': ofEach(({ schema }) => [
    ...['1', '3'].map((last) => change(`${schema}.cursors.last_sequence`, last, paidOrder)),
    change(`${schema}.cursors.ordering_key`, 'gen_random_uuid()', paidOrder),
    change(`${schema}.cursors.consumer`, `'another'`, paidOrder),
    ...[eventOfPaid, refundInOrder, paidOrder].map((rows) => remove(`${schema}.inbox`, rows)),
    change(`${schema}.inbox.consumer`, `'another'`, eventOfPaid),
    change(`${schema}.inbox.ordering_key`, 'gen_random_uuid()', eventOfPaid),
    change(`${schema}.inbox.sequence`, 'sequence + 1', refundInOrder),
  ]),
  'reaped-differs-from-missing': [
    ...[`now() - interval '3 days'`, 'now()'].map((time) =>
      change('ledger.outbox_horizon.reaped_before', time, onlyHorizon),
    ),
    change('ledger.outbox_horizon.events', 'events + 1', onlyHorizon),
    ...ofEach(({ schema }) => [
      add(`${schema}.cursors`, async ({ system }) => {
        const { txnId } = aPayment();
        await system.break(`INSERT INTO ${schema}.cursors VALUES ('stranger', $1, 1)`, [txnId]);
        return `${schema}.inbox/stranger`;
      }),
    ]),
    ...ofEach((consumer) => {
      const { schema } = consumer;
      const horizons = `${schema}.inbox_horizons`;
      const elsewhere = horizonOf(consumer, 'elsewhere');
      return [
        change(`${horizons}.reaped_before`, `now() - interval '3 days'`, horizonOf(consumer)),
        change(`${horizons}.events`, 'events + 1000', horizonOf(consumer)),
        change(`${horizons}.consumer`, `'elsewhere'`, elsewhere, 'events = events + 1000'),
        add(horizons, async ({ system }) => {
          const long = `now() - interval '3 days'`;
          await system.break(`INSERT INTO ${horizons} VALUES ('nowhere', ${long}, 5)`);
          return `${schema}.inbox/nowhere`;
        }),
      ];
    }),
  ],
};
