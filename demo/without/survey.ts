import { count, toJson } from '@triplock/command';
import { formatMoney, deriveTxnId, type IdempotencyKey, type PartnerId } from '@triplock/payments';
import { readAllReceipts, readReceipts } from '@triplock/inspect';
import { loadStatements } from '@triplock/postgres';
import type { Guards } from '../effects.ts';
import { committedOffsets, endOffsets, havePassed, total } from '../brokers.ts';
import type { Answer, PaymentBody } from '../partner.ts';
import { until } from '../promises.ts';
import type { System } from '../system.ts';
import type { MissingGuard } from './missing-guards.ts';

/** What there is of everything in a system. */
export type Survey = {
  records: number;
  rows: number;
  entries: number;
  conflicts: number;
  events: number;
  copies: number;
  inboxRows: number;
  deliveries: number;
  /** Webhooks as the partners got them, and how many different ids they had. */
  webhooks: number;
  webhookIds: number;
};

const statements = loadStatements(import.meta.url, 'survey.sql', [
  'survey',
  'postedAgain',
  'deliveredAgain',
]);

/** For so long nothing may have moved: a broker does not tell what it still holds. */
const stillMs = 1_500;

/** Counts what is in a system that nobody else uses, once nothing in it moves any more. */
export async function takeSurvey(system: System): Promise<Survey> {
  let last = '';
  let since = performance.now();
  return until({
    what: 'everything to come to rest',
    signal: system.signal,
    check: async () => {
      system.progress('waiting until nothing moves any more');
      const { waiting, ...survey } = await look(system);
      const now = toJson(survey);
      if (now !== last) [last, since] = [now, performance.now()];
      return waiting === 0 && performance.now() - since > stillMs && survey;
    },
  });
}

async function look(system: System): Promise<Survey & { waiting: number }> {
  const [end, committed, receipts, counts] = await Promise.all([
    endOffsets(system),
    committedOffsets(system),
    readAllReceipts(system.endpoints.catcher),
    system.database.query<Omit<Survey, 'records' | 'webhooks'> & { waiting: number }>(
      statements.survey,
    ),
  ]);
  const row = counts[0]!;
  return {
    ...row,
    records: Number(total(end)),
    webhooks: receipts.reduce((sum, { attempts }) => sum + attempts, 0),
    webhookIds: receipts.length,
    waiting: row.waiting + (havePassed(committed, end) ? 0 : 1),
  };
}

/** What each guard saw, in one line each. */
export function describeSurvey({
  survey,
  journal,
}: {
  survey: Survey;
  journal: readonly Exchange[];
}): Guards {
  const { records, rows, entries, conflicts, events } = survey;
  const keys = new Set(journal.map(({ partner, key }) => JSON.stringify([partner, key]))).size;
  const asked = `${count(journal.length, 'request')} under ${count(keys, 'key')}`;
  const booked = `${count(rows, 'row')}, ${count(entries, 'entry', 'entries')}`;
  const absorbed = records - rows - conflicts;
  const met = [
    ...(absorbed > 0 ? [`${count(absorbed, 'record')} already recorded`] : []),
    ...(conflicts > 0 ? [count(conflicts, 'key conflict')] : []),
  ];
  const copies = `${count(survey.copies, 'copy', 'copies')} published of ${count(events, 'event')}`;
  const kept = `${count(survey.inboxRows, 'inbox row')}, ${count(survey.deliveries, 'delivery', 'deliveries')}`;
  return {
    claims: `${asked}: ${answersOf(journal)}; ${count(records, 'Kafka record')}`,
    ledger: [booked, ...met].join(', '),
    inbox: `${copies}, ${kept}`,
    webhook: `${count(survey.webhooks, 'webhook')} under ${count(survey.webhookIds, 'webhook-id')}`,
  };
}

/** `2 × 202, 1 × 202 replayed, 1 × 422`. */
function answersOf(journal: readonly Exchange[]): string {
  const kinds = Map.groupBy(journal, ({ answer }) => {
    return `${answer.status}${answer.replayed ? ' replayed' : ''}`;
  });
  return [...kinds].map(([kind, some]) => `${some.length} × ${kind}`).join(', ');
}

/** What a partner sent and what it got. */
export type Exchange = { partner: string; key: string; body: PaymentBody; answer: Answer };

/** The same system; what its partners send and get is written down. */
export function keepJournal(system: System, journal: Exchange[]): System {
  return {
    ...system,
    // They change while processes are started again.
    get endpoints() {
      return system.endpoints;
    },
    partner: (id) => {
      const partner = system.partner(id);
      return {
        ...partner,
        pay: async (key, body) => {
          const answer = await partner.pay(key, body);
          journal.push({ partner: id, key, body, answer });
          return answer;
        },
      };
    },
  };
}

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
  { name }: Pick<MissingGuard, 'name'>,
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
