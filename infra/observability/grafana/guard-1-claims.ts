import { transactionKinds, type TransactionKind } from '@triplock/payments';
import { greatest, halfAndMost, lines, numbers, rate, type Dashboard } from './dashboard.ts';

/** Guard 1: the claim, in the gateway. */
export const guard1: Dashboard = {
  uid: 'triplock-guard-1-claims',
  title: 'Triplock: guard 1, claims',
  description: 'One request at a time works on a key, and a retry gets the answer of the first.',
  rows: [
    {
      title: 'What it caught',
      panels: [
        numbers({
          title: 'Duplicates caught',
          description:
            'Requests answered as before, or refused because the key is in use, since the gateways started.',
          unit: 'short',
          queries: [
            {
              expr: 'sum(triplock_duplicates_caught_total{guard="claims",instance=~"$instance"})',
              legend: 'requests',
            },
          ],
        }),
        numbers({
          title: 'Cold',
          description:
            'How much of the last day is to be read back from the ledger after claims were lost; 0: warm. Until then the ledger is asked about each new key.',
          unit: 'short',
          queries: [greatest('triplock_gateway_cold_ratio', '{{instance}}', 'instance')],
        }),
        numbers({
          title: 'Reads that wait',
          description: 'GETs with Prefer: wait=N that wait for a payment to become final.',
          unit: 'short',
          queries: [greatest('triplock_gateway_waiting_reads', '{{instance}}', 'instance')],
        }),
        lines({
          title: 'Duplicates caught per second',
          description: 'By gateway.',
          unit: 'reqps',
          queries: [
            rate('triplock_duplicates_caught_total', { by: 'instance', only: 'guard="claims"' }),
          ],
          width: 6,
        }),
      ],
    },
    {
      title: 'Requests',
      panels: [
        ...transactionKinds.map((kind) =>
          lines({
            title: titleOf(kind),
            description:
              'accepted and replayed are 202, reused is 422, in-flight 409, cold and unavailable 503; refused never got so far.',
            unit: 'reqps',
            queries: [rate(`triplock_gateway_${kind}s_total`, { by: 'outcome' })],
          }),
        ),
        lines({
          title: 'Reads and lists',
          description: 'GETs of one transaction, and pages of them.',
          unit: 'reqps',
          queries: [
            rate('triplock_gateway_reads_total', { by: 'outcome' }),
            rate('triplock_gateway_lists_total', { by: 'outcome' }),
          ],
        }),
      ],
    },
    {
      title: 'The claim store and the log',
      panels: [
        lines({
          title: 'Claims',
          description:
            'The store’s answers. claimed: the first request with a key. posted, not-posted: the ledger’s, about keys of cold buckets.',
          unit: 'reqps',
          queries: [
            rate('triplock_gateway_claims_total', { by: 'outcome' }),
            rate('triplock_gateway_ledger_questions_total', { by: 'outcome' }),
          ],
        }),
        lines({
          title: 'Time of a claim',
          description: 'Time until the store answered, or was given up.',
          unit: 's',
          queries: halfAndMost('triplock_gateway_claim_seconds'),
        }),
        lines({
          title: 'Time of an append',
          description:
            'Time until every in-sync replica of Kafka had the record. failed: refused or unknown.',
          unit: 's',
          queries: halfAndMost('triplock_gateway_append_seconds', { by: 'outcome' }),
        }),
      ],
    },
  ],
};

function titleOf(kind: TransactionKind): string {
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}s`;
}
