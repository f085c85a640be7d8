import { bucketCount } from '@triplock/contracts';
import { bucketOf, paymentEntry } from '@triplock/payments';
import { loadSql, type Database } from '@triplock/postgres';
import type { SettleOutcome, SettleRequest } from '../ledger.ts';
import { settlementEvent } from './event-row.ts';
import { paymentOf, type PaymentRow } from './payment-row.ts';
import { blamingInput } from './unpostable.ts';

const settleSql = loadSql(import.meta.url, 'settle.sql');
const appendSettlementSql = loadSql(import.meta.url, 'append-settlement.sql');

/** Settles one pending payment by `Ledger.settle`'s contract: state, entry and event, or nothing. */
export function settlePayment(database: Database, request: SettleRequest): Promise<SettleOutcome> {
  const { txnId, version, result, settledAt, traceparent, chargeId } = request;
  const failure = result.state === 'failed' ? result.failure : undefined;
  return blamingInput(() =>
    database.transaction(async (tx) => {
      const [row] = await tx.query<PaymentRow>(settleSql, [
        txnId,
        version,
        result.state,
        failure?.code ?? null,
        failure?.message ?? null,
        settledAt,
        chargeId ?? null,
      ]);
      if (row === undefined) return { outcome: 'stale' };
      await tx.query(appendSettlementSql, settlementParameters(row, traceparent));
      return { outcome: 'settled' };
    }),
  );
}

function settlementParameters(row: PaymentRow, traceparent: string): unknown[] {
  const payment = paymentOf(row);
  const { partnerId, provider } = payment;
  const { money } = payment.details;
  const event = settlementEvent({ payment, sequence: row.events, traceparent });
  const movement = { partnerId, money, provider: provider?.name };
  const entry = payment.state === 'succeeded' ? paymentEntry(movement) : undefined;
  return [
    payment.txnId,
    entry?.debit ?? null,
    entry?.credit ?? null,
    money.amount,
    money.currency,
    event.eventId,
    event.eventType,
    partnerId,
    bucketOf(payment.txnId, bucketCount),
    row.events,
    event.payload,
    event.traceparent,
    payment.txnId,
  ];
}
