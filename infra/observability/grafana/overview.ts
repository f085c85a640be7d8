import { countersOfServices } from '@triplock/pipeline';
import { greatest, halfAndMost, lines, numbers, rate, table, type Dashboard } from './dashboard.ts';
import { brought, chartedStages } from './watched.ts';

/** Is all well, and if not, where. */
export const overview: Dashboard = {
  uid: 'triplock-overview',
  title: 'Triplock: overview',
  description:
    'Whether all is well and, if not, in which service. Each guard has a dashboard of its own.',
  rows: [
    {
      title: 'Promises',
      panels: [
        numbers({
          title: 'Audit drift',
          description:
            'Ids on which any check of the last audit found drift. Anything but 0 is a broken promise.',
          unit: 'short',
          queries: [{ expr: 'sum(max by (check) (triplock_audit_drift))', legend: 'ids' }],
        }),
        numbers({
          title: 'Last audit',
          description:
            'Time since the last audit ended. The next one starts after nine times as long as an audit takes, at least a minute.',
          unit: 's',
          queries: [{ expr: 'time() - max(triplock_audit_last_timestamp_seconds)', legend: 'ago' }],
        }),
        numbers({
          title: 'Duplicates caught',
          description:
            'What each guard already knew, since its processes started. Duplicates are normal; that they are caught is the promise.',
          unit: 'short',
          queries: [
            { expr: 'sum by (guard) (triplock_duplicates_caught_total)', legend: '{{guard}}' },
          ],
        }),
        numbers({
          title: 'Retention used',
          description:
            'Age of the oldest accepted record that no worker has finished, divided by Kafka’s retention. At 100 % accepted payments are lost.',
          unit: 'percentunit',
          queries: [greatest('triplock_accepted_retention_used_ratio', 'used')],
        }),
        table({
          title: 'Alerts that fire',
          description: 'Each has a runbook in docs/alerts.md. Empty means all is well.',
          unit: 'short',
          queries: [
            { expr: 'ALERTS{alertstate="firing"}', legend: '{{alertname}} {{service}} {{check}}' },
          ],
        }),
        table({
          title: 'Replicas that answer',
          description: 'How many replicas of each service were scraped.',
          unit: 'short',
          queries: [{ expr: 'sum by (service) (up{service=~"$service"})', legend: '{{service}}' }],
        }),
      ],
    },
    {
      title: 'Flow',
      panels: [
        lines({
          title: 'Through the stages',
          description:
            'What passes each stage per second. The lines coincide when nothing queues; replays lift the later ones.',
          unit: 'reqps',
          queries: [
            {
              expr: countersOfServices.accepted.map(passed).join(' + '),
              legend: 'accepted',
            },
            {
              expr: 'sum(rate(triplock_worker_records_total{outcome!="already-recorded"}[$__rate_interval]))',
              legend: 'posted',
            },
            ...chartedStages.map(({ passes, passed }) => ({
              expr: `sum(rate(${passes}[$__rate_interval]))`,
              legend: passed,
            })),
          ],
        }),
        lines({
          title: 'Oldest in each stage',
          description:
            'How long the oldest item has waited in each stage. Seconds are normal; webhooks wait for their partners.',
          unit: 's',
          queries: [
            greatest('triplock_accepted_oldest_unread_seconds', 'accepted, not in the ledger'),
            ...chartedStages.map(({ age, waits }) => greatest(age, waits)),
          ],
        }),
        lines({
          title: 'Duplicates caught per second',
          description: 'By guard: claims in the gateway, the ledger, the inboxes.',
          unit: 'reqps',
          queries: [rate('triplock_duplicates_caught_total', { by: 'guard' })],
        }),
      ],
    },
    {
      title: 'Rate, errors and duration of each service',
      panels: [
        lines({
          title: 'Gateway: requests',
          description: 'Requests per second, by route and status class.',
          unit: 'reqps',
          queries: [
            rate('triplock_gateway_request_seconds_count', { by: 'method, route, status' }),
          ],
        }),
        lines({
          title: 'Gateway: errors',
          description:
            'Share of all requests that ended in a 5xx. The promise is at most 0.1 % over a month.',
          unit: 'percentunit',
          queries: [
            { expr: 'triplock:gateway_errors:ratio_rate5m', legend: '5 minutes' },
            { expr: 'triplock:gateway_errors:ratio_rate1h', legend: '1 hour' },
          ],
        }),
        lines({
          title: 'Gateway: duration',
          description:
            'From the head of a POST to the end of its response. Reads may wait on purpose and are left out.',
          unit: 's',
          queries: halfAndMost('triplock_gateway_request_seconds', { only: 'method="POST"' }),
        }),
        ...red('Worker', 'batches of a partition', 'triplock_worker_batch_seconds'),
        ...brought.flatMap(({ title, duration }) => red(title, duration.of, duration.metric)),
        ...red('Auditor', 'events', 'triplock_auditor_handle_seconds'),
        table({
          title: 'Auditor: duration by check',
          description: 'Duration of each check in the last scheduled audit.',
          unit: 's',
          queries: [greatest('triplock_audit_check_seconds', '{{check}}', 'check')],
        }),
        lines({
          title: 'Auditor: audits',
          description:
            'Scheduled audits per second, by outcome. failed: it could not compare everything.',
          unit: 'reqps',
          queries: [rate('triplock_audit_runs_total', { by: 'outcome' })],
          width: 12,
        }),
      ],
    },
    {
      title: 'Processes',
      panels: [
        lines({
          title: 'CPU',
          description: 'CPU cores that each service uses, summed over its replicas.',
          unit: 'short',
          queries: [rate('process_cpu_seconds_total', { by: 'service' })],
        }),
        lines({
          title: 'Memory',
          description: 'Resident memory of each replica.',
          unit: 'bytes',
          queries: [
            {
              expr: 'process_resident_memory_bytes{service=~"$service",instance=~"$instance"}',
              legend: '{{service}} {{instance}}',
            },
          ],
        }),
        lines({
          title: 'Event loop',
          description:
            'How late timers fire, 99th percentile. Above a few milliseconds the process has no CPU left.',
          unit: 's',
          queries: [
            {
              expr: 'nodejs_eventloop_lag_p99_seconds{service=~"$service",instance=~"$instance"}',
              legend: '{{service}} {{instance}}',
            },
          ],
        }),
      ],
    },
  ],
};

/** How many a second, of a figure that counts one value of a metric. */
function passed([metric, value]: readonly [metric: string, value: string]): string {
  return `sum(rate(${metric}{outcome="${value}"}[$__rate_interval]))`;
}

/** Rate and errors by outcome, and the duration of all. */
function red(service: string, what: string, histogram: string) {
  return [
    lines({
      title: `${service}: ${what}`,
      description: `How many per second, by outcome.`,
      unit: 'reqps',
      queries: [rate(`${histogram}_count`, { by: 'outcome' })],
      width: 12,
    }),
    lines({
      title: `${service}: duration`,
      description: `How long ${what} take.`,
      unit: 's',
      queries: halfAndMost(histogram),
      width: 12,
    }),
  ];
}
