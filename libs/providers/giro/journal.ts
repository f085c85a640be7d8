import { setTimeout as delay } from 'node:timers/promises';
import type { PartnerId, TxnId } from '@triplock/payments';
import {
  nextPage,
  ProviderError,
  storableText,
  type JournalKind,
  type JournalPage,
  type JournalQuery,
  type JournalRow,
  type JournalStatus,
  type ProviderJournal,
} from '@triplock/provider';
import { paceOf } from '@triplock/runtime';
import { openBank, type Bank, type BankAnswer, type BankOptions } from './bank-client.ts';
import { isBooking, isRefund, isTransfer, transactionOf, type Booking } from './transfers.ts';

/** How gently the journal is read. */
export type GiroJournalOptions = BankOptions & {
  requestsPerSecondMax: number;
  /** Rows of a page, 100 by default and at most. */
  pageMax?: number;
};

const retriesMax = 3;
const firstRetryMs = 200;
const retryMsMax = 5_000;

/** What the bank lists each kind under; it has no disputes. */
const lists = { intent: 'transfers', charge: 'bookings', refund: 'refunds' } as const;

/** The bank's own transfers, bookings and refunds, newest first, with all that it has answered. */
export function openGiroJournal(options: GiroJournalOptions): ProviderJournal {
  const { requestsPerSecondMax, pageMax: limit = 100 } = options;
  const ask = patiently(openBank(options), requestsPerSecondMax);
  return {
    list: (query) => list(ask, query, limit),
    read: (kind, id) => read(ask, kind, id),
  };
}

type Ask = (path: string) => Promise<BankAnswer>;

async function list(
  ask: Ask,
  { kind, since, after }: JournalQuery,
  limit: number,
): Promise<JournalPage> {
  if (kind === 'dispute') return { outcome: 'page', rows: [] };
  const query = new URLSearchParams({
    since: String(Math.floor(since.getTime() / 1_000) * 1_000),
    limit: String(limit),
    ...(after !== undefined && { after }),
  });
  const { status, body } = await ask(`/${lists[kind]}?${query.toString()}`);
  if (status === 404 && after !== undefined) return { outcome: 'unknown-cursor' };
  const { data, more } = body;
  if (status !== 200 || !Array.isArray(data) || typeof more !== 'boolean') throw nonsense(status);
  const rows = data.map((each: unknown) => rowOf(kind, each));
  const next = nextPage({ after, more, last: rows.at(-1)?.id });
  return { outcome: 'page', rows, ...(next === undefined ? {} : { next }) };
}

async function read(ask: Ask, kind: JournalKind, id: string): Promise<JournalRow | undefined> {
  if (kind === 'dispute') return undefined;
  const { status, body } = await ask(`/${lists[kind]}/${encodeURIComponent(id)}`);
  return status === 404 ? undefined : rowOf(kind, body);
}

type Kind = keyof typeof lists;

/** @throws ProviderError for what is none of the kind. */
function rowOf(kind: Kind, value: unknown): JournalRow {
  switch (kind) {
    case 'intent': {
      if (!isTransfer(value)) throw nonsense(200);
      const waits = value.status === 'released' ? ({ waitsFor: 'bank' } as const) : {};
      const row = common(value, value.id, transactionOf(value.id));
      return { ...row, kind, status: intentStatuses[value.status], ...waits };
    }
    case 'charge': {
      if (!isBooking(value)) throw nonsense(200);
      const row = common(value, value.transfer, transactionOf(value.transfer));
      return { ...row, kind, status: chargeStatuses[value.status] };
    }
    case 'refund': {
      if (!isRefund(value)) throw nonsense(200);
      const row = common(value, value.transfer, transactionOf(value.id));
      return { ...row, kind, status: 'succeeded' };
    }
    default:
      return kind satisfies never;
  }
}

const intentStatuses = {
  prepared: 'unconfirmed',
  released: 'pending',
  settled: 'succeeded',
  returned: 'failed',
  cancelled: 'failed',
} as const satisfies Record<string, JournalStatus>;

const chargeStatuses = {
  pending: 'pending',
  booked: 'succeeded',
  returned: 'failed',
} as const satisfies Record<Booking['status'], JournalStatus>;

function common(
  seen: Pick<Booking, 'id' | 'amount' | 'currency' | 'reference' | 'created_at'>,
  intentId: string,
  txnId: TxnId | undefined,
) {
  const partnerId = storableText(seen.reference, 255) as PartnerId;
  return {
    id: seen.id,
    amount: BigInt(seen.amount),
    currency: seen.currency,
    createdAt: new Date(Math.floor(seen.created_at / 1_000) * 1_000),
    intentId,
    ...(txnId === undefined ? {} : { txnId, partnerId }),
  };
}

/** So many requests begin in a second, and what may come right by itself is asked again. */
function patiently(bank: Bank, perSecondMax: number): Ask {
  const turn = paceOf(perSecondMax);
  return async (path) => {
    for (let retries = 0; ; retries += 1) {
      await turn();
      const answer = await bank({ method: 'GET', path });
      if (answer.outcome === 'answered') return answer;
      if (retries === retriesMax || answer.untilMended) throw answer.error;
      const { retryAfterMs = 0 } = answer;
      await delay(Math.min(retryMsMax, Math.max(retryAfterMs, firstRetryMs * 2 ** retries)));
    }
  };
}

function nonsense(statusCode: number): ProviderError {
  return new ProviderError({ type: 'nonsense', statusCode });
}
