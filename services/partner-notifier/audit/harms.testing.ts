import { aPayment } from '@triplock/testing';
import {
  add,
  aPartner,
  bothEvents,
  change,
  paidEvent,
  refundEvent,
  remove,
  succeededEvent,
  type AuditedConsumer,
  type Harm,
  type Rows,
} from '@triplock/testing/test';

const notify: AuditedConsumer['effect'] = async (tx, events) => {
  for (const { payload } of events) {
    const { event_id: eventId, partner_id: partner, txn_id: txnId } = payload;
    const { type, timestamp, sequence, data } = payload;
    const body = JSON.stringify({ type, timestamp, sequence, data });
    await tx.query(
      'INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body) VALUES ($1, $2, $3, $4)',
      [eventId, partner, txnId, body],
    );
  }
};

/** A webhook of a partner of its own that is left in such a state. */
const aWebhook = (state: 'pending' | 'parked' | 'failed', then = ''): Harm => ({
  async harm({ system }) {
    const paid = aPayment({ partner: aPartner('webhook') });
    await system.pay(paid);
    const { event_id: eventId } = succeededEvent(paid);
    await system.failToDeliver(eventId, state);
    if (then !== '') await system.break(then, [eventId, paid.partnerId]);
    return eventId;
  },
});
/** Has it never been tried. */
const untried = `DELETE FROM webhooks.delivery_attempts WHERE event_id = $1 AND $2::text IS NOT NULL`;
/** Gives its partner an open endpoint. */
const endpointOf = `INSERT INTO partners.webhook_endpoints
    (partner_id, url, host, verified_url, verified_at, secrets)
  SELECT partner_id, 'https://example.com', 'example.com', 'https://example.com', now(),
         '[{"id": "1", "key": "one", "box": ""}]'
  FROM webhooks.deliveries
  WHERE event_id = $1 AND partner_id = $2`;
/** Gives the delivery an endpoint that is not open: one that nobody has asked, or that is gone. */
const itsEndpoint = (state: 'deleted' | 'unverified') => `WITH endpoint AS (
    INSERT INTO partners.webhook_endpoints (partner_id, url, host, secrets, deleted_at)
    SELECT $2, 'https://example.com', 'example.com',
           ${state === 'deleted' ? `'[]', now()` : `'[{"id": "1", "key": "one", "box": ""}]', NULL`}
    RETURNING endpoint_id
  )
  UPDATE webhooks.deliveries SET endpoint_id = endpoint.endpoint_id FROM endpoint
  WHERE event_id = $1`;

/** Has it never been tried, at an endpoint that has turned others away. */
const untriedAtItsPace = `WITH untried AS (
    DELETE FROM webhooks.delivery_attempts WHERE event_id = $1
  ), endpoint AS (
    INSERT INTO partners.webhook_endpoints (partner_id, url, host, verified_url, verified_at, secrets)
    VALUES ($2, 'https://example.com', 'example.com', 'https://example.com', now(),
            '[{"id": "1", "key": "one", "box": ""}]')
    RETURNING endpoint_id
  ), pace AS (
    INSERT INTO notifier.endpoint_paces (endpoint_id, a_second, paused_until, slowed_at)
    SELECT endpoint_id, 10, '-infinity', now() FROM endpoint
  )
  UPDATE webhooks.deliveries SET endpoint_id = endpoint.endpoint_id FROM endpoint
  WHERE event_id = $1`;

/** An endpoint of a partner of its own that wanted since long ago what came a moment ago. */
const aWish: Harm = {
  async harm({ system }) {
    const paid = aPayment({ partner: aPartner('wish') });
    await system.pay(paid);
    await system.break(
      `INSERT INTO partners.endpoint_wishes (endpoint_id, partner_id, event_types, since)
       VALUES (gen_random_uuid(), $1, '{payment.succeeded}', now() - interval '1 hour')`,
      [paid.partnerId],
    );
    return succeededEvent(paid).event_id;
  },
};

/** A delivery that left by age, of a partner that has no other. */
const reapedOf: Rows = {
  by: 'partner_id',
  find: async ({ system }) => {
    const partner = aPartner('reaped');
    await system.pay(aPayment({ partner }));
    const aged = `finished_at = now() - interval '31 days'`;
    await system.break(`UPDATE webhooks.deliveries SET ${aged} WHERE partner_id = $1`, [partner]);
    await system.break(
      `SELECT webhooks.reap_deliveries(interval '30 days', interval '90 days', 100)`,
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
         UPDATE webhooks.deliveries
         SET made_together = 2, finished_at = now() - interval '31 days'
         WHERE partner_id = $1 RETURNING *
       )
       INSERT INTO webhooks.deliveries
         (event_id, ordinal, made_together, partner_id, txn_id, body, state, finished_at)
       SELECT event_id, 2, 2, partner_id, txn_id, body, state, finished_at FROM first`,
      [partner],
    );
    await system.break(
      `SELECT webhooks.reap_deliveries(interval '30 days', interval '90 days', 100)`,
    );
    return { key: partner, id: `${partner}/payment.succeeded/EUR/others` };
  },
});

const delivery = (column: string, value: string, rows: Rows, along?: string) =>
  change(`webhooks.deliveries.${column}`, value, rows, along);
const attempt = (column: string, value: string, rows: Rows) =>
  change(`webhooks.delivery_attempts.${column}`, value, rows);

const reaped = (column: string, value: string) =>
  change(`webhooks.reaped_deliveries.${column}`, value, reapedOf);

/** A horizon of which there is one. */
const onlyHorizon: Rows = {
  by: 'only_row',
  find: () => Promise.resolve({ key: 'true', id: 'webhooks.deliveries' }),
};

/** Rows that say of an event that it had one more delivery, which nobody finds. */
const otherDeliveryOf = (rows: Rows): Rows => ({
  ...rows,
  find: async (harmed) => ({ ...(await rows.find(harmed)), id: 'webhooks.deliveries' }),
});

/** For every check of webhooks some things that it exists to see. */
const harms: AuditedConsumer['harms'] = {
  'inbox-missing': [
    ...bothEvents((rows) => remove('notifier.inbox', rows)),
    ...bothEvents((rows) => change('notifier.inbox.event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => change('notifier.inbox.consumer', `'another'`, rows)),
  ],
  'delivery-waiting': [
    // Never tried; and parked although there is an endpoint.
    aWebhook('pending', untried),
    aWebhook('parked', endpointOf),
    // Its endpoint was deleted, and nobody has canceled it.
    ...(['parked', 'pending', 'failed'] as const).map((state) =>
      aWebhook(state, itsEndpoint('deleted')),
    ),
  ],
  'delivery-refused': [aWebhook('pending'), aWebhook('pending', untriedAtItsPace)],
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
    ...bothEvents((rows) => remove('webhooks.deliveries', rows)),
    ...bothEvents((rows) => delivery('event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => delivery('ordinal', '2', rows)),
    add('webhooks.deliveries', async ({ system }) => {
      const { event_id: id, partner_id: partner, txn_id: txnId } = succeededEvent(aPayment());
      await system.break(
        `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body)
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
  // Of what came after another.
  'feed-out-of-order': [delivery('position', `position - 3600000000`, refundEvent)],
  'delivery-differs-from-attempts': [
    // Called delivered, and nobody ever sent it.
    ...bothEvents((rows) => remove('webhooks.delivery_attempts', rows)),
    ...bothEvents((rows) => attempt('event_id', 'gen_random_uuid()', rows)),
    ...bothEvents((rows) => attempt('ordinal', '2', rows)),
    ...bothEvents((rows) => attempt('attempt', 'attempt + 1', rows)),
    ...bothEvents((rows) => attempt('status', '500', rows)),
    attempt('status', 'NULL', paidEvent),
    attempt('error', `'no answer in time'`, paidEvent),
    attempt('recorded_at', `recorded_at + interval '1 s'`, paidEvent),
    add('webhooks.delivery_attempts', async ({ system, paidEvent }) => {
      await system.break(
        `INSERT INTO webhooks.delivery_attempts (event_id, attempt, status, took_ms)
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
    ].map(([column, value]) => change(`webhooks.reaped_deliveries.${column}`, value!, reapedAt(2))),
    remove('webhooks.reaped_deliveries', reapedAt(2)),
    change('webhooks.reaped_deliveries.others', 'others + 1', reapedAt(1)),
    change('webhooks.reaped_deliveries.others_amount', 'others_amount + 1', reapedAt(1)),
    add('webhooks.reaped_deliveries', async ({ system }) => {
      await system.break(
        `INSERT INTO webhooks.reaped_deliveries
         VALUES ('reaped-0', 'delivered', 'payment.succeeded', 'EUR', 1, 5)`,
      );
      return 'reaped-0/payment.succeeded/EUR';
    }),
  ],
  'reaped-differs-from-missing': [
    ...[`now() - interval '3 days'`, 'now()'].map((time) =>
      change('webhooks.deliveries_horizon.reaped_before', time, onlyHorizon),
    ),
    delivery('made_together', 'made_together + 1', otherDeliveryOf(paidEvent)),
    change('webhooks.reaped_deliveries.others', 'others + 1', otherDeliveryOf(reapedOf)),
  ],
};

/** What the notifier is audited by. */
export const audited: AuditedConsumer = {
  effect: notify,
  harms,
  unharmed: {
    'webhooks.deliveries.first_attempt*': 'pauses and the end of attempts: what never ends waits',
    'webhooks.deliveries.next_attempt_at': 'a lease or a pause: what is never tried again waits',
    'webhooks.deliveries.lease_*': 'a lease, which ends by itself',
    'notifier.send_rates*': 'who may send how soon: what is never sent waits',
    'notifier.endpoint_paces*': 'the same of an endpoint that turned something away',
    'webhooks.delivery_attempts.took_ms': 'a duration for people',
    'webhooks.reaped_deliveries.state':
      'whether partners had taken what is removed is known nowhere else',
    '*webhooks.feed_horizons*': 'a reader who is told that it missed something reads all anew',
    'webhooks.feed_server.server': 'a server is new once too often: a gap between positions',
    'webhooks.redelivery_acts*': 'what a partner asked for and was answered is known nowhere else',
  },
  denied: [
    'SELECT FROM ledger.transactions',
    'UPDATE webhooks.deliveries SET body = body',
    'DELETE FROM webhooks.deliveries',
    'DELETE FROM notifier.inbox',
    'SELECT FROM partners.settlement_batches',
    'SELECT FROM partners.api_keys',
  ],
};
