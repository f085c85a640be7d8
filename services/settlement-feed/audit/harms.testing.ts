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
  INSERT INTO partners.settlement_batches AS known (partner_id, day, currency, gross, refunds, payments, refund_count)
  VALUES ($1, ($2::timestamptz AT TIME ZONE 'UTC')::date, $3, $4, $5, $6, $7)
  ON CONFLICT (partner_id, day, currency) DO UPDATE SET
    gross = known.gross + $4, refunds = known.refunds + $5,
    payments = known.payments + $6, refund_count = known.refund_count + $7`;

const addUp: AuditedConsumer['effect'] = async (tx, events) => {
  for (const { payload } of events) {
    const { type, partner_id: partner, timestamp, data } = payload;
    const { amount, currency } = data;
    if (type === 'payment.succeeded') {
      await tx.query(addSql, [partner, timestamp, currency, amount, 0, 1, 0]);
    }
    if (type === 'refund.succeeded') {
      await tx.query(addSql, [partner, timestamp, currency, 0, amount, 0, 1]);
    }
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
      change('ledger.transactions.amount', 'amount + 1', batchOf),
    ],
  },
  unharmed: {},
  denied: [
    'SELECT FROM ledger.transactions',
    'DELETE FROM partners.settlement_batches',
    'DELETE FROM settlement.inbox',
    'SELECT FROM webhooks.deliveries',
    'SELECT FROM partners.api_keys',
  ],
};
