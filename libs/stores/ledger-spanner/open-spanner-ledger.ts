import type { SpannerDatabase } from './spanner/open-spanner.ts';
import type { Ledger } from '@triplock/ledger';
import { listPayments } from './list-payments.ts';
import { postPayments } from './post-payments.ts';
import { readTransaction } from './read-rows.ts';
import { recordKeyConflict } from './record-key-conflict.ts';
import { settlePayment, storeIntent } from './settle-payment.ts';
import { paymentFrom } from './transaction-row.ts';

/** The ledger in Cloud Spanner. Closing it closes the database's connection. */
export function openSpannerLedger(database: SpannerDatabase): Ledger {
  return {
    post: (batch) => postPayments(database, batch),
    storeIntent: (request) => storeIntent(database, request),
    settle: (request) => settlePayment(database, request),
    recordKeyConflict: (posting) => recordKeyConflict(database, posting),
    find: async (txnId) => {
      const row = await readTransaction(database, txnId);
      return row?.kind === 'payment' ? paymentFrom(row) : undefined;
    },
    list: (request) => listPayments(database, request),
    isEmpty: async () =>
      (await database.query('SELECT txn_id FROM transactions LIMIT 1')).length === 0,
    ping: () => database.ping(),
    close: () => database.close(),
  };
}
