import { randomUUID } from 'node:crypto';
import { aPayment, aRefund } from '@triplock/testing';
import {
  add,
  alter,
  aPartner,
  bothEvents,
  change,
  paidEvent,
  eventOfPaid,
  paidOrder,
  refundInOrder,
  remove,
  rowsBy,
  type Harm,
  type Rows,
} from './harm.ts';
import { reapedOf } from './harm-to-webhooks.ts';
import { succeededEvent } from './whole-system.ts';

/** The consumers by their schemas, each with what brings it an event. */
const consumers = {
  notifier: { name: 'partner-notifier', receive: 'notify' },
  settlement: { name: 'settlement-feed', receive: 'addUp' },
} as const;
type Schema = keyof typeof consumers;
/** Harms what each consumer has. */
const ofEach = (harmsOf: (schema: Schema) => readonly Harm[]) =>
  (Object.keys(consumers) as Schema[]).flatMap(harmsOf);

/** The row of an event that becomes another event's. */
const eventBecoming = (id: string): Rows => ({
  ...paidEvent,
  find: ({ paidEvent }) => Promise.resolve({ key: paidEvent.event_id, id }),
});

/** A consumer that has begun to forget, with nothing to forget yet. */
const horizonOf = (schema: Schema, named: string = consumers[schema].name): Rows => ({
  by: 'consumer',
  find: async ({ system }) => {
    const { name: consumer } = consumers[schema];
    await system.break(`SELECT ${schema}.reap_inbox($1, interval '1 day', 1)`, [consumer]);
    return { key: consumer, id: `${schema}.inbox/${named}` };
  },
});

/** A horizon of which there is one. */
const onlyHorizon = (table: string): Rows => ({
  by: 'only_row',
  find: () => Promise.resolve({ key: 'true', id: table }),
});

/** Rows that say of an event that it had one more delivery, which nobody finds. */
const otherDeliveryOf = (rows: Rows): Rows => ({
  ...rows,
  find: async (harmed) => ({ ...(await rows.find(harmed)), id: 'notifier.deliveries' }),
});

const harmsToInboxes: Record<string, readonly Harm[]> = {
  'inbox-missing': [
    ...bothEvents((rows) => remove('notifier.inbox', rows)),
    ...bothEvents((rows) => change('notifier.inbox.event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => change('notifier.inbox.consumer', `'another'`, rows)),
  ],
  'event-early': ofEach((schema) => [
    add(`${schema}.early_events`, async ({ system }) => {
      const second = { ...succeededEvent(aPayment()), sequence: 2 };
      await system[consumers[schema].receive](second);
      return second.event_id;
    }),
  ]),
  'inbox-unfounded': ofEach((schema) => {
    const another = randomUUID();
    return [
      add(`${schema}.inbox`, async ({ system }) => {
        const forged = succeededEvent(aPayment());
        await system[consumers[schema].receive](forged);
        return forged.event_id;
      }),
      change(`${schema}.inbox.event_id`, `'${another}'`, eventBecoming(another)),
      change(`${schema}.inbox.payload_hash`, `'another'`, paidEvent),
    ];
  }),
  'inbox-altered': ofEach((schema) => [
    add(`${schema}.altered_copies`, async ({ system, refunded }) => {
      const altered = { ...refunded, timestamp: '2020-01-01T00:00:00.000Z' };
      await system[consumers[schema].receive](altered);
      return refunded.event_id;
    }),
  ]),
  'cursor-differs-from-inbox': ofEach((schema) => [
    ...['1', '3'].map((last) => change(`${schema}.cursors.last_sequence`, last, paidOrder)),
    change(`${schema}.cursors.ordering_key`, 'gen_random_uuid()', paidOrder),
    change(`${schema}.cursors.consumer`, `'another'`, paidOrder),
    ...[eventOfPaid, refundInOrder, paidOrder].map((rows) => remove(`${schema}.inbox`, rows)),
    change(`${schema}.inbox.consumer`, `'another'`, eventOfPaid),
    change(`${schema}.inbox.ordering_key`, 'gen_random_uuid()', eventOfPaid),
    change(`${schema}.inbox.sequence`, 'sequence + 1', refundInOrder),
  ]),
  'reaped-differs-from-missing': [
    ...['ledger.outbox', 'notifier.deliveries'].flatMap((table) =>
      [`now() - interval '3 days'`, 'now()'].map((time) =>
        change(`${table}_horizon.reaped_before`, time, onlyHorizon(table)),
      ),
    ),
    change('ledger.outbox_horizon.events', 'events + 1', onlyHorizon('ledger.outbox')),
    change('notifier.deliveries.made_together', 'made_together + 1', otherDeliveryOf(paidEvent)),
    change('notifier.reaped_deliveries.others', 'others + 1', otherDeliveryOf(reapedOf)),
    ...ofEach((schema) => [
      add(`${schema}.cursors`, async ({ system }) => {
        const { txnId } = aPayment();
        await system.break(`INSERT INTO ${schema}.cursors VALUES ('stranger', $1, 1)`, [txnId]);
        return `${schema}.inbox/stranger`;
      }),
    ]),
    ...ofEach((schema) => {
      const horizons = `${schema}.inbox_horizons`;
      const elsewhere = horizonOf(schema, 'elsewhere');
      return [
        change(`${horizons}.reaped_before`, `now() - interval '3 days'`, horizonOf(schema)),
        change(`${horizons}.events`, 'events + 1000', horizonOf(schema)),
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

/** The batch of a partner that has no other. */
const batchOf: Rows = {
  by: 'partner_id',
  find: async ({ system }) => {
    const partner = aPartner('batch');
    const paid = aPayment({ partner });
    await system.pay(paid);
    await system.giveBack(aRefund(paid, { amount: 250n }), 2);
    return { key: partner, id: `${partner}/${succeededEvent(paid).timestamp.slice(0, 10)}/EUR` };
  },
};
const batch = (column: string, value: string) =>
  change(`settlement.batches.${column}`, value, batchOf);

/** A cursor, where the newest event that it has passed is named. */
const cursorOfRefund = rowsBy(
  'ordering_key',
  ({ paid }) => paid.txnId,
  ({ refunded }) => refunded.event_id,
);

const harmsToSettlement: Record<string, readonly Harm[]> = {
  'settlement-missing': [remove('settlement.cursors', cursorOfRefund)],
  'settlement-differs-from-ledger': [
    alter('UPDATE settlement.batches SET gross = gross + 1, refunds = refunds + 1', batchOf),
    batch('gross', 'gross + 1'),
    batch('refunds', 'refunds - 1'),
    batch('payments', 'payments + 1'),
    batch('refund_count', 'refund_count + 1'),
    batch('day', 'day - 1'),
    batch('currency', `'USD'`),
    batch('partner_id', `partner_id || '-2'`),
    remove('settlement.batches', batchOf),
    add('settlement.batches', async ({ system }) => {
      const today = new Date().toISOString().slice(0, 10);
      await system.break(
        `INSERT INTO settlement.batches
           (partner_id, day, currency, gross, refunds, payments, refund_count)
         VALUES ('batch-0', $1, 'EUR', 1, 0, 1, 0)`,
        [today],
      );
      return `batch-0/${today}/EUR`;
    }),
    change('ledger.transactions.amount', 'amount + 1', batchOf),
  ],
};

/** For every check of inboxes and settlement some things that it exists to see. */
export const harmsToConsumers = { ...harmsToInboxes, ...harmsToSettlement };
