import { count } from '@triplock/operator';
import type { Guards } from '../guards.ts';
import type { Exchange } from './keep-journal.ts';
import type { Survey } from './take-survey.ts';

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
