import { randomUUID } from 'node:crypto';
import { aPayment, aRefund } from '@triplock/testing';
import {
  add,
  alter,
  aPartner,
  aWebhook,
  aWish,
  change,
  endpointOf,
  paidEvent,
  eventOfPaid,
  paidOrder,
  refundEvent,
  itsEndpoint,
  refundInOrder,
  remove,
  rowsBy,
  untried,
  type Harm,
  type Rows,
} from './harm.ts';
import { succeededEvent } from './whole-system.ts';

/** Harms the rows of the events of both a payment and a refund, one at a time. */
const bothEvents = (harmOf: (rows: Rows) => Harm) => [harmOf(paidEvent), harmOf(refundEvent)];

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

/** A delivery that left by age, of a partner that has no other. */
const reapedOf: Rows = {
  by: 'partner_id',
  find: async ({ system }) => {
    const partner = aPartner('reaped');
    await system.pay(aPayment({ partner }));
    const aged = `finished_at = now() - interval '31 days'`;
    await system.break(`UPDATE notifier.deliveries SET ${aged} WHERE partner_id = $1`, [partner]);
    await system.break(
      `SELECT notifier.reap_deliveries(interval '30 days', interval '90 days', 100)`,
    );
    return { key: partner, id: `${partner}/payment.succeeded/EUR` };
  },
};

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

const delivery = (column: string, value: string, rows: Rows, along?: string) =>
  change(`notifier.deliveries.${column}`, value, rows, along);
const attempt = (column: string, value: string, rows: Rows) =>
  change(`notifier.delivery_attempts.${column}`, value, rows);

const reaped = (column: string, value: string) =>
  change(`notifier.reaped_deliveries.${column}`, value, reapedOf);

const harmsToDeliveries: Record<string, readonly Harm[]> = {
  'delivery-waiting': [
    // Never tried; and parked although there is an endpoint.
    aWebhook('pending', untried),
    aWebhook('parked', endpointOf),
    // Its endpoint was deleted, and nobody has canceled it.
    ...(['parked', 'pending', 'failed'] as const).map((state) =>
      aWebhook(state, itsEndpoint('deleted')),
    ),
  ],
  'delivery-refused': [aWebhook('pending')],
  'delivery-parked': [
    aWebhook('parked'),
    aWebhook('parked', itsEndpoint('unverified')),
    // The server has yet to say that it wants webhooks.
    aWebhook('parked', endpointOf.replace("'https://example.com', now()", 'NULL, NULL')),
    // The server answered 410 Gone.
    aWebhook(
      'parked',
      endpointOf.replace('secrets)', 'secrets, disabled_at)').replace(`}]'`, `}]', now()`),
    ),
  ],
  'delivery-given-up': [aWebhook('failed')],
  'delivery-differs-from-inbox': [
    ...bothEvents((rows) => remove('notifier.deliveries', rows)),
    ...bothEvents((rows) => delivery('event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => delivery('ordinal', '2', rows)),
    add('notifier.deliveries', async ({ system }) => {
      const { event_id: id, partner_id: partner, txn_id: txnId } = succeededEvent(aPayment());
      await system.break(
        `INSERT INTO notifier.deliveries (event_id, partner_id, txn_id, body)
         VALUES ($1, $2, $3, '{}')`,
        [id, partner, txnId],
      );
      return id;
    }),
  ],
  'delivery-differs-from-endpoints': [
    aWish,
    ...bothEvents((rows) => delivery('endpoint_id', 'gen_random_uuid()', rows)),
  ],
  'delivery-tells-otherwise': [
    ...bothEvents((rows) => delivery('partner_id', `'globex'`, rows)),
    ...bothEvents((rows) => delivery('txn_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => delivery('body', `replace(body, '250,', '251,')`, rows)),
    ...bothEvents((rows) => delivery('body', `replace(body, 'p":"20', 'p":"10')`, rows)),
  ],
  'delivery-differs-from-attempts': [
    // Called delivered, and nobody ever sent it.
    ...bothEvents((rows) => remove('notifier.delivery_attempts', rows)),
    ...bothEvents((rows) => attempt('event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => attempt('ordinal', '2', rows)),
    ...bothEvents((rows) => attempt('attempt', 'attempt + 1', rows)),
    ...bothEvents((rows) => attempt('status', '500', rows)),
    attempt('status', 'NULL', paidEvent),
    attempt('error', `'no answer in time'`, paidEvent),
    attempt('recorded_at', `recorded_at + interval '1 s'`, paidEvent),
    add('notifier.delivery_attempts', async ({ system, paidEvent }) => {
      await system.break(
        `INSERT INTO notifier.delivery_attempts (event_id, attempt, status, took_ms)
         VALUES ($1, 2, 200, 5)`,
        [paidEvent.event_id],
      );
      return paidEvent.event_id;
    }),
    delivery('state', `'failed'`, paidEvent),
    ...['attempts + 1', 'attempts - 1'].map((value) => delivery('attempts', value, paidEvent)),
    ...[`'refused'`, 'NULL'].map((value) => delivery('last_outcome', value, paidEvent)),
    delivery('last_status', 'last_status + 1', paidEvent),
    delivery('last_error', `'no answer in time'`, paidEvent),
    delivery('finished_at', `finished_at + interval '1 s'`, paidEvent),
  ],
  'reaped-differs-from-published': [
    reaped('partner_id', `'globex'`),
    reaped('event_type', `'payment.failed'`),
    reaped('currency', `'USD'`),
    reaped('deliveries', 'deliveries + 1'),
    reaped('ordinal', '2'),
    reaped('amount', 'amount + 1'),
    add('notifier.reaped_deliveries', async ({ system }) => {
      await system.break(
        `INSERT INTO notifier.reaped_deliveries
         VALUES ('reaped-0', 'delivered', 'payment.succeeded', 'EUR', 1, 5)`,
      );
      return 'reaped-0/payment.succeeded/EUR';
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

/** For every check of consumers and their effects some things that it exists to see. */
export const harmsToConsumers = { ...harmsToInboxes, ...harmsToDeliveries, ...harmsToSettlement };
