import { count, readAllReceipts, toJson } from '@triplock/operator';
import { loadSql } from '@triplock/postgres';
import type { Guards } from '../effects.ts';
import { committedOffsets, endOffsets, havePassed, total } from '../ledger-group.ts';
import type { Answer, PaymentBody } from '../partner.ts';
import { until } from '../promises.ts';
import type { System } from '../system.ts';

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

const sql = loadSql(import.meta.url, 'survey.sql');

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
    system.database.query<Omit<Survey, 'records' | 'webhooks'> & { waiting: number }>(sql),
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
