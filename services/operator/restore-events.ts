import { bucketCount, decodePaymentEvent, type PaymentEvent } from '@triplock/contracts';
import { bucketOf, traceparentOf } from '@triplock/payments';
import { loadStatements, type Queryable } from '@triplock/postgres';

const sql = loadStatements(import.meta.url, 'restore-events.sql', [
  'restoreEvents',
  'continueNumbers',
]);

/** What became of archived events: those that the database lacked, and those that have no place. */
export type RestoredEvents = {
  restored: number;
  /** Ids of events of which another one of their payment has the number. */
  contested: string[];
  /** Ids of events of which the database has another text, or another end of what they tell of. */
  altered: string[];
  /** Texts that are no event of ours. */
  unreadable: number;
};

/** Puts archived events back where they were, some hundred at a time. */
export type EventRestorer = {
  take(texts: readonly Buffer[]): Promise<void>;
  /** Once all were taken. */
  end(): Promise<RestoredEvents>;
};

const rowsMax = 500;

/**
 * Opens a restorer, in a transaction as the database's owner: with what it notes each event is told
 * by its own bytes, and its transaction becomes as it says once a worker comes to it.
 */
export function openEventRestorer(tx: Queryable): EventRestorer {
  const sum: RestoredEvents = { restored: 0, contested: [], altered: [], unreadable: 0 };
  let waiting: object[] = [];
  const put = async () => {
    if (waiting.length === 0) return;
    const rows = waiting.map((row, nth) => ({ nth, ...row }));
    waiting = [];
    type Put = Pick<RestoredEvents, 'restored' | 'contested' | 'altered'>;
    const [done] = await tx.query<Put>(sql.restoreEvents, [JSON.stringify(rows)]);
    sum.restored += done!.restored;
    sum.contested.push(...done!.contested);
    sum.altered.push(...done!.altered);
  };
  return {
    take: async (texts) => {
      for (const text of texts) {
        const row = rowOf(text);
        if (row === undefined) sum.unreadable += 1;
        else waiting.push(row);
        if (waiting.length >= rowsMax) await put();
      }
    },
    end: async () => {
      await put();
      await tx.query(sql.continueNumbers);
      return sum;
    },
  };
}

/** An archived event as restoreEvents reads it; nothing for what is none. */
function rowOf(text: Buffer): object | undefined {
  const event = decodeArchived(text);
  if (event === undefined) return undefined;
  const { event_id, txn_id, payment_id, partner_id, sequence, timestamp } = event;
  return {
    event_id,
    event_type: event.type,
    txn_id,
    payment_id,
    partner_id,
    bucket: bucketOf(payment_id, bucketCount),
    sequence: sequence ?? null,
    payload: text.toString(),
    traceparent: traceparentOf(undefined, txn_id),
    happened_at: timestamp,
    ...toldBy(event),
  };
}

/** The text alone was archived: what its message would carry beside it says the same. */
function decodeArchived(text: Buffer): PaymentEvent | undefined {
  let parsed: Partial<PaymentEvent>;
  try {
    parsed = JSON.parse(text.toString()) as Partial<PaymentEvent>;
  } catch {
    return undefined;
  }
  const { event_id, type: event_type, txn_id, payment_id, sequence } = parsed;
  const attributes = { event_id, event_type, txn_id, payment_id, sequence: sequence?.toString() };
  const decoded = decodePaymentEvent({ data: text, attributes });
  return decoded.outcome === 'event' ? decoded.event : undefined;
}

/** Of what an event's data may have, what is looked at here. */
type Shown = {
  amount?: number;
  currency?: string;
  amount_captured?: number;
  failure?: { code: string; message: string };
  provider?: { charge_id?: string };
  next_action?: { expires_at?: string };
  dispute?: { id: string };
};

const ends = /\.(succeeded|captured|failed|canceled)$/;

/** What it says of its transaction, as the ledger would have it. */
function toldBy({ type, data }: PaymentEvent): object {
  const { amount, currency, amount_captured: captured, ...shown } = data as Shown;
  const [, state = null] = ends.exec(type) ?? [];
  const isFollowUp = !type.startsWith('payment.');
  // One that failed because nothing fitted says what was asked for, and no currency.
  const moved = type === 'payment.captured' ? captured : isFollowUp && currency ? amount : null;
  return {
    state,
    failure_code: shown.failure?.code ?? null,
    failure_message: shown.failure?.message ?? null,
    amount: moved ?? null,
    currency: isFollowUp ? (currency ?? null) : null,
    charge_id: shown.provider?.charge_id ?? null,
    action_expires_at: shown.next_action?.expires_at ?? null,
    dispute_id: shown.dispute?.id ?? null,
  };
}
