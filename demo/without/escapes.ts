import { count, formatMoney, readReceipts } from '@triplock/operator';
import { deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { loadStatements } from '@triplock/postgres';
import type { System } from '../system.ts';
import type { MissingGuard } from './missing-guards.ts';
import type { Exchange } from './survey.ts';

const statements = loadStatements(import.meta.url, 'escapes.sql', [
  'postedAgain',
  'deliveredAgain',
]);

/** Duplicates of one payment that a missing guard let through. */
export type Escape = {
  id: string;
  /** How many more there are than there should be. */
  duplicates: number;
  /** What they are, for people. */
  what: string;
};

/** Finds what a guard that is taken away would have caught, and nothing else. */
export function findEscapes(
  { name }: MissingGuard,
  { system, journal }: { system: System; journal: readonly Exchange[] },
): Promise<Escape[]> {
  switch (name) {
    case 'claims':
      return Promise.resolve(takenForNew(journal));
    case 'ledger':
      return postedAgain(system);
    case 'inbox':
      return deliveredAgain(system);
    default:
      return name satisfies never;
  }
}

/** Requests under a used key that got a 202 which is no replay: of what partners really got. */
export function takenForNew(journal: readonly Exchange[]): Escape[] {
  const accepted = journal.filter(({ answer }) => answer.status === 202 && !answer.replayed);
  const byKey = Map.groupBy(accepted, ({ partner, key }) => idOf(partner, key));
  return [...byKey].flatMap(([id, [first, ...again]]) => {
    if (again.length === 0) return [];
    const asked = JSON.stringify(first!.body);
    const what = again.map(({ body }) =>
      JSON.stringify(body) === asked
        ? `${money(body.amount, body.currency)} taken for new once more, instead of a replay`
        : `${money(body.amount, body.currency)} accepted under a used key, instead of a 422`,
    );
    return [{ id, duplicates: again.length, what: what.join('; ') }];
  });
}

type PostedAgain = { id: string; rows: number; currency: string; amount: bigint; booked: bigint };

async function postedAgain({ database }: System): Promise<Escape[]> {
  const found = await database.query<PostedAgain>(statements.postedAgain);
  return found.map(({ id, rows, currency, amount, booked }) => {
    const what = `${rows} rows: ${money(booked, currency)} booked instead of ${money(amount, currency)}`;
    return { id, duplicates: rows - 1, what };
  });
}

type DeliveredAgain = {
  webhookId: string;
  id: string;
  deliveries: number;
  amount: bigint;
  currency: string;
};

async function deliveredAgain({ database, endpoints }: System): Promise<Escape[]> {
  const found = await database.query<DeliveredAgain>(statements.deliveredAgain);
  return Promise.all(
    found.map(async ({ webhookId, id, deliveries, amount, currency }) => {
      const receipts = await readReceipts(endpoints.catcher, id);
      const came = receipts.find((receipt) => receipt.id === webhookId)?.attempts ?? 0;
      const webhooks = `${count(came, 'webhook')} under the one webhook-id ${webhookId}`;
      const what = `${deliveries} deliveries of ${money(amount, currency)}, ${webhooks}`;
      return { id, duplicates: deliveries - 1, what };
    }),
  );
}

function idOf(partner: string, key: string): string {
  return deriveTxnId('payment', partner as PartnerId, key as IdempotencyKey);
}

const money = formatMoney;
