import { stripeKeyFor } from '@triplock/launcher';
import { openStripeJournal, type JournalKind, type JournalRow } from '@triplock/provider';
import type { System } from '../system.ts';
import type { LedgerRow } from './read-effects.ts';

/** What the provider has by an id that the ledger names; `undefined` when it has nothing by it. */
export type ProviderObject = { kind: JournalKind; id: string; row: JournalRow | undefined };

const timeoutMs = 5_000;

/**
 * Asks the provider about what a row names: its intent and charge, or its refund.
 *
 * @throws when it cannot be asked.
 */
export async function readProvider(
  { endpoints }: Pick<System, 'endpoints'>,
  rows: readonly LedgerRow[],
): Promise<ProviderObject[]> {
  const named = rows.flatMap(({ intentId, chargeId, refundId }) => [
    ...(intentId === null ? [] : [{ kind: 'intent', id: intentId } as const]),
    ...(chargeId === null ? [] : [{ kind: 'charge', id: chargeId } as const]),
    ...(refundId === null ? [] : [{ kind: 'refund', id: refundId } as const]),
  ]);
  if (named.length === 0) return [];
  const apiKey = stripeKeyFor(endpoints.stripe);
  if (apiKey === undefined) throw new Error('STRIPE_API_KEY is not set here');
  const place = { apiKey, apiUrl: endpoints.stripe, timeoutMs };
  const books = openStripeJournal({ ...place, requestsPerSecondMax: 20 });
  return Promise.all(
    named.map(async ({ kind, id }) => ({ kind, id, row: await books.read(kind, id) })),
  );
}
