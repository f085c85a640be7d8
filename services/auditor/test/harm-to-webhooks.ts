import { aPayment } from '@triplock/testing';
import {
  aPartner,
  add,
  bothEvents,
  change,
  paidEvent,
  remove,
  succeededEvent,
} from '@triplock/testing/test';
import { aWebhook, aWish, endpointOf, itsEndpoint, untried, type Harm, type Rows } from './harm.ts';

/** A delivery that left by age, of a partner that has no other. */
export const reapedOf: Rows = {
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

/** The same at the second endpoint of such a partner, or what the first says of it. */
const reapedAt = (ordinal: 1 | 2): Rows => ({
  by: `ordinal = ${ordinal} AND partner_id`,
  find: async ({ system }) => {
    const partner = aPartner('reaped');
    await system.pay(aPayment({ partner }));
    await system.break(
      `WITH first AS (
         UPDATE notifier.deliveries
         SET made_together = 2, finished_at = now() - interval '31 days'
         WHERE partner_id = $1 RETURNING *
       )
       INSERT INTO notifier.deliveries
         (event_id, ordinal, made_together, partner_id, txn_id, body, state, finished_at)
       SELECT event_id, 2, 2, partner_id, txn_id, body, state, finished_at FROM first`,
      [partner],
    );
    await system.break(
      `SELECT notifier.reap_deliveries(interval '30 days', interval '90 days', 100)`,
    );
    return { key: partner, id: `${partner}/payment.succeeded/EUR/others` };
  },
});

const delivery = (column: string, value: string, rows: Rows, along?: string) =>
  change(`notifier.deliveries.${column}`, value, rows, along);
const attempt = (column: string, value: string, rows: Rows) =>
  change(`notifier.delivery_attempts.${column}`, value, rows);

const reaped = (column: string, value: string) =>
  change(`notifier.reaped_deliveries.${column}`, value, reapedOf);

/** For every check of webhooks some things that it exists to see. */
export const harmsToWebhooks: Record<string, readonly Harm[]> = {
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
    ...bothEvents((rows) => delivery('body', `'{}'`, rows)),
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
    // Reaped wrongly: too many or too much, or as another partner's, type or currency.
    ...[
      ['deliveries', 'deliveries + 1'],
      ['amount', 'amount + 1'],
      ['partner_id', `'globex'`],
      ['event_type', `'payment.failed'`],
      ['currency', `'USD'`],
    ].map(([column, value]) => change(`notifier.reaped_deliveries.${column}`, value!, reapedAt(2))),
    remove('notifier.reaped_deliveries', reapedAt(2)),
    change('notifier.reaped_deliveries.others', 'others + 1', reapedAt(1)),
    change('notifier.reaped_deliveries.others_amount', 'others_amount + 1', reapedAt(1)),
    add('notifier.reaped_deliveries', async ({ system }) => {
      await system.break(
        `INSERT INTO notifier.reaped_deliveries
         VALUES ('reaped-0', 'delivered', 'payment.succeeded', 'EUR', 1, 5)`,
      );
      return 'reaped-0/payment.succeeded/EUR';
    }),
  ],
};
