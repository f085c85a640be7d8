import { aPayment, aRefund } from '@triplock/testing';
import {
  add,
  alter,
  aPartner,
  change,
  remove,
  rowsBy,
  type AuditedConsumer,
  type Rows,
} from '@triplock/testing/test';

const addSql = `
  SELECT partners.add_settlements(ARRAY[$1], ARRAY[$2]::uuid[], ARRAY[$3], ARRAY[$4], ARRAY[$5]::bigint[],
    ARRAY[$6]::timestamptz[])`;

const addUp: AuditedConsumer['effect'] = async (tx, events) => {
  for (const { payload } of events) {
    const { type, partner_id: partner, txn_id: txnId, timestamp, data } = payload;
    const amount = Number(data['amount']);
    const add = (kind: string, added: number) =>
      tx.query(addSql, [partner, txnId, kind, data['currency'], added, timestamp]);
    if (type === 'payment.succeeded') await add('payment', amount);
    if (type === 'capture.succeeded') await add('capture', amount);
    if (type === 'refund.succeeded') await add('refund', -amount);
  }
};

/** The batch of a partner that has no other. */
const batchOf: Rows = {
  by: 'partner_id',
  find: async ({ system }) => {
    const partner = aPartner('batch');
    const paid = aPayment({ partner });
    const { timestamp } = await system.pay(paid);
    await system.giveBack(aRefund(paid, { amount: 250n }), 2);
    return { key: partner, id: `${partner}/${timestamp.slice(0, 10)}/EUR` };
  },
};
/** The lines of such a partner, by its payment. */
const linesOf: Rows = {
  by: 'partner_id',
  find: async ({ system }) => {
    const partner = aPartner('line');
    const paid = aPayment({ partner });
    await system.pay(paid);
    await system.giveBack(aRefund(paid, { amount: 250n }), 2);
    return { key: partner, id: paid.txnId };
  },
};
const line = (column: string, value: string) =>
  change(`partners.settlement_lines.${column}`, value, linesOf);

const batch = (column: string, value: string) =>
  change(`partners.settlement_batches.${column}`, value, batchOf);

/** A cursor, where the newest event that it has passed is named. */
const cursorOfRefund = rowsBy(
  'ordering_key',
  ({ paid }) => paid.txnId,
  ({ refunded }) => refunded.event_id,
);

/** What the settlement feed is audited by. */
export const audited: AuditedConsumer = {
  effect: addUp,
  harms: {
    'settlement-missing': [remove('settlement.cursors', cursorOfRefund)],
    'settlement-differs-from-ledger': [
      line('partner_id', `partner_id || '-2'`),
      line('txn_id', 'gen_random_uuid()'),
      line('kind', `'capture'`),
      line('currency', `'USD'`),
      line('amount', 'amount + 1'),
      line('settled_at', `settled_at - interval '1 ms'`),
      remove('partners.settlement_lines', linesOf),
      add('partners.settlement_lines', async ({ system }) => {
        const partner = aPartner('line');
        const paid = aPayment({ partner });
        await system.pay(paid);
        await system.break(
          `INSERT INTO partners.settlement_lines (partner_id, day, txn_id, kind, currency, amount, settled_at)
           SELECT partner_id, day, txn_id, kind, currency, amount, settled_at
           FROM partners.settlement_lines WHERE partner_id = $1`,
          [partner],
        );
        return paid.txnId;
      }),
      change('ledger.transactions.amount', 'amount + 1', linesOf),
    ],
    'settlement-differs-from-lines': [
      change('partners.settlement_lines.day', 'day + 1', batchOf),
      ...[
        ['partner_id', `partner_id || '-2'`],
        ['day', 'day + 1'],
        ['currency', `'USD'`],
        ['kind', `kind || '-2'`],
        ['settled_on', 'settled_on - 1'],
        ['count', 'count + 1'],
        ['amount', 'amount + 1'],
      ].map(([column, value]) => change(`partners.settlement_sums.${column}`, value!, batchOf)),
      remove('partners.settlement_sums', batchOf),
      add('partners.settlement_sums', async (scene) => {
        const { key: partner, id } = await batchOf.find(scene);
        await scene.system.break(
          `INSERT INTO partners.settlement_sums
           SELECT partner_id, day, currency, 'capture', settled_on, 1, 1
           FROM partners.settlement_sums WHERE partner_id = $1 AND kind = 'payment'`,
          [partner],
        );
        return id;
      }),
      alter(
        'UPDATE partners.settlement_batches SET gross = gross + 1, refunds = refunds + 1',
        batchOf,
      ),
      batch('gross', 'gross + 1'),
      batch('refunds', 'refunds - 1'),
      batch('payments', 'payments + 1'),
      batch('refund_count', 'refund_count + 1'),
      batch('day', 'day - 1'),
      batch('currency', `'USD'`),
      batch('partner_id', `partner_id || '-2'`),
      remove('partners.settlement_batches', batchOf),
      add('partners.settlement_batches', async ({ system }) => {
        const today = new Date().toISOString().slice(0, 10);
        await system.break(
          `INSERT INTO partners.settlement_batches
             (partner_id, day, currency, gross, refunds, payments, refund_count)
           VALUES ('batch-0', $1, 'EUR', 1, 0, 1, 0)`,
          [today],
        );
        return `batch-0/${today}/EUR`;
      }),
    ],
  },
  unharmed: {
    'partners.settlement_lines.line_id': 'a number by which lines are listed',
    'partners.settlement_calendar*':
      'a day that is called closed has what it has, and the next one the rest',
  },
  denied: [
    'SELECT FROM ledger.transactions',
    'DELETE FROM partners.settlement_batches',
    'DELETE FROM settlement.inbox',
    'SELECT FROM webhooks.deliveries',
    'SELECT FROM partners.api_keys',
  ],
};
