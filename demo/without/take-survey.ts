import { loadSql } from '@triplock/postgres';
import { readAllReceipts, toJson } from '@triplock/operator';
import { committedOffsets, endOffsets, havePassed, total } from '../ledger-group.ts';
import type { System } from '../system.ts';
import { until } from '../until.ts';

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

const sql = loadSql(import.meta.url, 'sql/survey.sql');

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
