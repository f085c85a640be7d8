import { greatest, halfAndMost, lines, numbers, rate, type Dashboard } from './dashboard.ts';

/** Guard 2: the ledger row, in the worker, and whom it charges cards at. */
export const guard2: Dashboard = {
  uid: 'triplock-guard-2-ledger',
  title: 'Triplock: guard 2, ledger',
  description: 'One row per txn_id for ever, and one charge per row.',
  rows: [
    {
      title: 'What it caught',
      panels: [
        numbers({
          title: 'Duplicates caught',
          description:
            'Records whose transaction was already in the ledger, since the workers started.',
          unit: 'short',
          queries: [
            {
              expr: 'sum(triplock_duplicates_caught_total{guard="ledger",instance=~"$instance"})',
              legend: 'records',
            },
          ],
        }),
        numbers({
          title: 'Refunds undone',
          description:
            'Webhooks that report a refund as failed after it had succeeded. Above 0, a person has to act.',
          unit: 'short',
          queries: [
            {
              expr: 'sum(triplock_worker_refunds_undone_total{instance=~"$instance"})',
              legend: 'webhooks',
            },
          ],
        }),
        numbers({
          title: 'Paid after the end',
          description:
            'Webhooks of money for a payment that had ended without it. Above 0, a person has to act.',
          unit: 'short',
          queries: [
            {
              expr: 'sum(triplock_worker_paid_after_end_total{instance=~"$instance"})',
              legend: 'webhooks',
            },
          ],
        }),
        numbers({
          title: 'Circuits to providers',
          description: '1 while calls to a provider are suspended because it is failing.',
          unit: 'short',
          queries: [
            greatest(
              'triplock_worker_provider_circuit_open',
              '{{provider}} {{instance}}',
              'provider, instance',
            ),
          ],
        }),
        lines({
          title: 'Conflicts',
          description:
            'Records whose txn_id was already there. final: nothing to do; resumed: continued; key-conflict: another request.',
          unit: 'reqps',
          queries: [rate('triplock_worker_conflicts_total', { by: 'outcome' })],
          width: 6,
        }),
      ],
    },
    {
      title: 'Records',
      panels: [
        lines({
          title: 'Records',
          description: 'By outcome; a redelivered record counts again.',
          unit: 'reqps',
          queries: [rate('triplock_worker_records_total', { by: 'outcome' })],
        }),
        lines({
          title: 'Dead letters',
          description:
            'Records set aside, by reason. A key conflict is reported to its partner; anything else needs a person.',
          unit: 'reqps',
          queries: [rate('triplock_auditor_dead_letters_total', { by: 'reason' })],
        }),
        lines({
          title: 'From acceptance to the ledger',
          description: 'Age of the oldest record in each batch, when the batch was finished.',
          unit: 's',
          queries: halfAndMost('triplock_worker_record_age_seconds'),
        }),
        lines({
          title: 'Lag by partition',
          description:
            'Records that the worker of a partition has not finished, as it sees them itself. Missing while no worker runs.',
          unit: 'short',
          queries: [greatest('triplock_worker_lag_records', '{{partition}}', 'partition')],
        }),
        lines({
          title: 'Lag, as Kafka reports it',
          description: 'Records that no worker has finished, also while none is running.',
          unit: 'short',
          queries: [greatest('triplock_accepted_unread_records', 'records')],
        }),
        lines({
          title: 'Groups joined',
          description:
            'How often consumers joined their group in 15 minutes. Above 30 something throws them out, as a quota does.',
          unit: 'short',
          queries: [
            {
              expr: 'max by (service, topic) (increase(triplock_kafka_group_joins_total[15m]))',
              legend: '{{service}} {{topic}}',
            },
          ],
        }),
        lines({
          title: 'Held back by a quota of Kafka',
          description: 'Seconds of each second for which brokers held a client back.',
          unit: 's',
          queries: [rate('triplock_kafka_throttled_seconds_total', { by: 'service' })],
        }),
        lines({
          title: 'Dropped unread',
          description:
            'Accepted records that Kafka dropped before a worker had read them: lost payments.',
          unit: 'short',
          queries: [greatest('triplock_accepted_dropped_unread_records', 'records')],
        }),
        lines({
          title: 'Time of a batch',
          description:
            'From receiving a batch until its offset may be committed, charges included.',
          unit: 's',
          queries: halfAndMost('triplock_worker_batch_seconds', { by: 'outcome' }),
        }),
        lines({
          title: 'Time of a posting statement',
          description: 'Its commit included.',
          unit: 's',
          queries: halfAndMost('triplock_worker_post_seconds', { by: 'outcome' }),
        }),
        lines({
          title: 'Payments of one statement',
          description:
            'Larger statements cost less per payment. Near the maximum there is nothing more to gain.',
          unit: 'short',
          queries: halfAndMost('triplock_worker_post_rows'),
        }),
      ],
    },
    {
      title: 'Cards',
      panels: [
        lines({
          title: 'Charges',
          description: 'Attempts, by outcome. unknown: asked again, by the same key or intent.',
          unit: 'reqps',
          queries: [rate('triplock_worker_charges_total', { by: 'outcome' })],
        }),
        lines({
          title: 'Refunds at the provider',
          description: 'Attempts to give money back, by outcome.',
          unit: 'reqps',
          queries: [rate('triplock_worker_refunds_total', { by: 'outcome' })],
        }),
        lines({
          title: 'Looked after',
          description:
            'Pending transactions that nobody had finished in time, by what the resolver did with them.',
          unit: 'reqps',
          queries: [rate('triplock_worker_resolved_total', { by: 'outcome' })],
        }),
        lines({
          title: 'Calls to providers',
          description:
            'Calls that were sent. turned-away: beyond a limit; unknown: no answer, or one that says nothing.',
          unit: 'reqps',
          queries: [
            rate('triplock_worker_provider_call_seconds_count', { by: 'provider, call, outcome' }),
          ],
        }),
        lines({
          title: 'Time of a call',
          description: 'How long a provider takes to answer, by call.',
          unit: 's',
          queries: halfAndMost('triplock_worker_provider_call_seconds', { by: 'provider, call' }),
        }),
        lines({
          title: 'Age of unknown outcomes',
          description:
            'Age of a transaction each time it was checked and its outcome was still unknown.',
          unit: 's',
          queries: halfAndMost('triplock_worker_unknown_age_seconds'),
        }),
        lines({
          title: 'Webhooks from the provider',
          description:
            'By outcome. They only wake waiting transactions, so copies and losses do not matter.',
          unit: 'reqps',
          queries: [rate('triplock_worker_provider_events_total', { by: 'outcome' })],
        }),
      ],
    },
  ],
};
