import { loadSql, type Database } from '@triplock/postgres';
import type { SettleOutcome, SettleRequest } from '../ledger.ts';
import { appendSettlement, settleParameters } from './append-settlement.ts';
import { paymentOf, type PaymentRow } from '../payment-row.ts';
import { paymentMovement, settlementEvent } from '../settlement.ts';
import { blamingInput } from './unpostable.ts';

const settleSql = loadSql(import.meta.url, 'settle.sql');

/**
 * Settles one pending payment by `Ledger.settle`'s contract: state, entry and event, or nothing.
 */
export function settlePayment(database: Database, request: SettleRequest): Promise<SettleOutcome> {
  const { traceparent } = request;
  const parameters = settleParameters(request, request.chargeId);
  return blamingInput(() =>
    database.transaction(async (tx) => {
      const [row] = await tx.query<PaymentRow>(settleSql, parameters);
      if (row === undefined) return { outcome: 'stale' };
      const payment = paymentOf(row);
      const event = settlementEvent(payment, row.events);
      await appendSettlement(tx, { event, traceparent, entry: paymentMovement(payment) });
      return { outcome: 'settled' };
    }),
  );
}
