import {
  greatest,
  halfAndMost,
  lines,
  numbers,
  table,
  type Dashboard,
  type Panel,
} from './dashboard.ts';
import { chartedStages, stages } from './watched.ts';

const steps = `
1. Give the id (\`txn_id\`, the id of the API) above: the trace store is searched for it below.
2. Or ask every layer, which needs no trace: \`npm run trace -- ID\`, or \`npm run trace -- PARTNER KEY\`.
3. If it is in none of the stages and no layer knows it, it was never accepted: the partner may send
   it again under the same key.

Guards: [claims](/d/triplock-guard-1-claims) · [ledger](/d/triplock-guard-2-ledger) ·
[outbox and inbox](/d/triplock-guard-3-outbox-and-inbox)
`;

/** The stages that a payment is in, one after the other, with how many are there and how old. */
export const whereIsMyPayment: Dashboard = {
  uid: 'triplock-where-is-my-payment',
  title: 'Triplock: where is my payment',
  description:
    'What is in flight in each stage, how old the oldest of it is, and how to find one payment.',
  asks: { name: 'txn_id', label: 'Payment or refund' },
  texts: [
    {
      title: 'How to find one payment',
      description: 'The ways to find one payment, quickest first.',
      markdown: steps.trim(),
    },
  ],
  traces: {
    title: 'Its traces',
    description:
      'Spans of this payment or refund in the trace store. Requests that were not sampled have none.',
    traceQl: '{ span.triplock.txn_id = "$txn_id" }',
  },
  rows: [
    {
      title: 'In flight now',
      panels: [
        ...stage('1. Accepted, not in the ledger', 'in Kafka, for a worker', {
          count: 'triplock_accepted_unread_records',
          age: 'triplock_accepted_oldest_unread_seconds',
        }),
        ...stage('2. Posted, not final', 'for the provider, at the last audit, up to 100', {
          count: 'triplock_audit_in_flight{check="ledger-unfinished"}',
          age: 'triplock_audit_in_flight_oldest_seconds{check="ledger-unfinished"}',
        }),
        ...stage('2b. Cards that wait for a customer', 'at the last audit, up to 100', {
          count: 'triplock_audit_waiting{check="card-unfinished"}',
          age: 'triplock_audit_waiting_oldest_seconds{check="card-unfinished"}',
        }),
        ...stages.flatMap(({ title, where, count, age }) => stage(title, where, { count, age })),
      ],
    },
    {
      title: 'Over time',
      panels: [
        lines({
          title: 'Oldest in each stage',
          description: 'Where a line keeps rising, payments are stuck.',
          unit: 's',
          width: 12,
          queries: [
            greatest('triplock_accepted_oldest_unread_seconds', '1. accepted'),
            {
              expr: 'max(triplock_audit_in_flight_oldest_seconds{check="ledger-unfinished"})',
              legend: '2. posted',
            },
            ...chartedStages.map(({ age, as }) => greatest(age, as)),
          ],
        }),
        lines({
          title: 'From acceptance to the ledger',
          description: 'Age of the oldest record in each batch, when the batch was finished.',
          unit: 's',
          width: 12,
          queries: halfAndMost('triplock_worker_record_age_seconds'),
        }),
        table({
          title: 'What the last audit found in flight',
          description:
            'Ids by check, up to 100 each. The check’s name says which two layers it compares.',
          unit: 'short',
          queries: [{ expr: 'max by (check) (triplock_audit_in_flight) > 0', legend: '{{check}}' }],
        }),
        table({
          title: 'What waits for others',
          description:
            'Customers, banks and partners’ endpoints, by check, up to 100 of each partner. No drift.',
          unit: 'short',
          queries: [{ expr: 'max by (check) (triplock_audit_waiting) > 0', legend: '{{check}}' }],
        }),
        table({
          title: 'For how long',
          description: 'Age of the oldest id in flight, by check.',
          unit: 's',
          queries: [
            {
              expr: 'max by (check) (triplock_audit_in_flight_oldest_seconds) > 0',
              legend: '{{check}}',
            },
          ],
        }),
      ],
    },
  ],
};

function stage(
  title: string,
  where: string,
  { count, age }: { count: string; age: string },
): [Panel, Panel] {
  return [
    numbers({
      title,
      description: `How many are there: ${where}.`,
      unit: 'short',
      queries: [{ expr: `max(${count})`, legend: 'now' }],
    }),
    numbers({
      title: `${title}: oldest`,
      description: `How long the oldest of them has been there: ${where}.`,
      unit: 's',
      queries: [{ expr: `max(${age})`, legend: 'oldest' }],
    }),
  ];
}
