import { join } from 'node:path';
import { formatFiles, generateFiles, type GeneratorCallback, type Tree } from '@nx/devkit';
import { audited } from './audited-consumer.ts';
import { insertAll, type Insertion } from './insertions.ts';
import { refuseName } from './names.ts';
import { dependOn, factsOf, listings, manual, settle, type Facts } from './service.ts';

const templates = join(import.meta.dirname, 'templates', 'consumer');

/**
 * Writes a consumer of events whose effect is rows, in the transaction of its inbox: subscribed,
 * migrated, watched by Prometheus and Grafana, shown in a payment's trace, and audited. Its name is
 * one word, because it is also that of its schema, role, metrics and crash points.
 *
 * @throws RefusedName when the name is taken or not a name, LostAnchor when a file that has to name
 * the consumer reads otherwise; nothing is written then.
 */
export async function consumer(tree: Tree, { name }: { name: string }): Promise<GeneratorCallback> {
  refuseName(tree, 'consumer', name);
  const facts = factsOf(tree, name);
  generateFiles(tree, templates, `services/${name}`, facts);
  insertAll(tree, [
    ...listings(facts),
    {
      file: 'e2e/poison-events.test.ts',
      before: `];\n\ntest('an event published twice has one effect`,
      text: `, '${name}'`,
    },
    ...watched(facts),
    ...audited(facts.name),
    ...traced(facts),
    ...documented(facts),
  ]);
  dependOn(tree, name);
  await formatFiles(tree);
  return () => {
    settle(tree);
    console.log(`services/${name} consumes events. Next: npm run check, npm run up`);
  };
}

/** Its alerts and its panels. */
function watched({ name }: Facts): readonly Insertion[] {
  const rules = 'infra/observability/prometheus/rules/events.yml';
  const [oldest, refused] = ['events_oldest_seconds', 'refused_messages_total[15m]'];
  const altered = 'events_total{outcome="altered"}[15m]';
  const board = 'infra/observability/grafana/guard-3-outbox-and-inbox.ts';
  return [
    {
      file: rules,
      before: `            or triplock_auditor_${oldest}`,
      text: `            or triplock_${name}_${oldest}\n`,
    },
    {
      file: rules,
      before: `          ) > 600\n        labels: { severity: ticket }`,
      text: `            or triplock_${name}_early_oldest_seconds\n`,
    },
    ...[refused, altered].map((metric) => ({
      file: rules,
      before: `            or increase(triplock_auditor_${metric})`,
      text: `            or increase(triplock_${name}_${metric})\n`,
    })),
    {
      file: board,
      before: `  { prefix: 'triplock_auditor'`,
      text: `  { prefix: 'triplock_${name}', name: '${name}' },\n`,
    },
    {
      file: board,
      after: `              legend: 'settlement: inbox',\n            },\n`,
      text: `{ ...rate('triplock_${name}_reaped_total', { by: 'service' }), legend: '${name}: inbox' },\n`,
    },
    {
      file: 'infra/observability/grafana/overview.ts',
      before: `        ...red('Auditor', 'events'`,
      text: `        ...red('${name}', 'events', 'triplock_${name}_handle_seconds'),\n`,
    },
  ];
}

/** Its line in a payment's trace. */
function traced({ name }: Facts): readonly Insertion[] {
  const file = 'libs/inspect/effects.ts';
  const statements = 'libs/inspect/effects.sql';
  const own = `${name[0]!.toUpperCase()}${name.slice(1)}`;
  return [
    {
      file,
      before: `};\n\n/** A record of the payment's id that was set aside. */`,
      text: `  /** The same at ${name}. */\n  ${name}Rows: number;\n  ${name}ReceivedAt: Date | null;\n  isPast${own}: boolean;\n`,
    },
    {
      file: statements,
      before: `\nFROM ledger.outbox o\n`,
      text: `,
       ${name}_inbox.rows AS "${name}Rows", ${name}_inbox.received_at AS "${name}ReceivedAt",
       coalesce(${name}_cursor.last_sequence >= o.sequence, false) AS "isPast${own}"`,
    },
    {
      file: statements,
      before: `WHERE o.payment_id = coalesce(`,
      text: `CROSS JOIN LATERAL (
  SELECT count(*)::int AS rows, min(received_at) AS received_at
  FROM ${name}.inbox WHERE event_id = o.event_id
) ${name}_inbox
LEFT JOIN ${name}.cursors ${name}_cursor
  ON ${name}_cursor.consumer = '${name}' AND ${name}_cursor.ordering_key = o.payment_id
`,
    },
    {
      file: 'services/console/payments/payment-layers.ts',
      after: `    isPastFeed: json.flag,\n`,
      text: `    ${name}Rows: json.whole,\n    ${name}ReceivedAt: json.orNull(json.time),\n    isPast${own}: json.flag,\n`,
    },
    {
      file: 'services/operator/trace.ts',
      after: `      what: inboxOf(event.feedRows, { isApplied: event.isPastFeed }),\n    },\n`,
      text: `    {
      at: event.${name}ReceivedAt,
      layer: 'guard 3 ${name}',
      what: inboxOf(event.${name}Rows, { isApplied: event.isPast${own} }),
    },\n`,
    },
    {
      file: 'services/operator/trace.test.ts',
      after: `      'delivery',\n      'guard 3 settlement',\n`,
      text: `      'guard 3 ${name}',\n`,
    },
    {
      file: 'services/operator/trace.test.ts',
      after: `    feedReceivedAt: at(60),\n    isPastFeed: true,\n`,
      text: `    ${name}Rows: 1,\n    ${name}ReceivedAt: at(60),\n    isPast${own}: true,\n`,
    },
  ];
}

/** Its metrics as docs/observability.md tells of them, after its name. */
const metricsTold = [
  'events_total` | `outcome` | Events received, by outcome of the inbox. early: kept until an earlier one came.',
  'refused_messages_total` | `reason` | Messages that are not valid events: kept for inspection and acknowledged.',
  'handle_seconds` | `outcome` | Time from the arrival of a message to its ack or nack. failed: redelivered.',
  'reaped_total` |  | Inbox rows removed by the reaper.',
  'events_in_hand` |  | Messages received and neither acknowledged nor given back yet.',
  'events_oldest_seconds` |  | Time since the oldest message in hand was published; 0 if there is none.',
  'early_events` |  | Events that came before the one that precedes them, kept until it comes.',
  'early_oldest_seconds` |  | Time since the oldest of them was kept; 0 if there is none.',
];

/** Its metrics, its crash windows, and how it is run. */
function documented({ name }: Facts): readonly Insertion[] {
  const metrics = metricsTold.map((told) => `| \`triplock_${name}_${told} |\n`);
  const heads = '| metric | labels | what it tells |\n| --- | --- | --- |\n';
  return [
    {
      file: 'docs/observability.md',
      before: '### The audit: auditor\n',
      text: `### Guard 3: ${name}\n\n${heads}${metrics.join('')}\n`,
    },
    {
      file: 'docs/failures.md',
      before: '| `auditor.received` ',
      text: `| \`${name}.received\` | nothing new | redelivered |
| \`${name}.committed\` | inbox row and effect | redelivered; the inbox knows it |
`,
    },
    {
      file: 'infra/launcher/provision/database.test.ts',
      before: `  triplock_auditor: [\n    insertPayment,`,
      text: `  triplock_${name}: ['SELECT FROM ledger.transactions', 'DELETE FROM ${name}.inbox', readKeys],\n`,
    },
    { file: 'docs/operating.md', before: ' auditor; do\n', text: ` ${name}` },
    {
      file: 'docs/operating.md',
      before: '| auditor           | `pubsub.subscriptions.get`',
      text: `| ${name} | \`pubsub.subscriptions.get\`, \`pubsub.subscriptions.consume\` on the subscription \`${name}\`; \`pubsub.topics.get\` on the topic \`payment-events.v1\` |\n`,
    },
    {
      file: 'docs/operating.md',
      before: '; `pubsub.subscriptions.consume` on the subscription `auditor`',
      text: `; \`pubsub.subscriptions.consume\` on the subscription \`${name}\``,
    },
    manual(name, [
      `\`triplock_${name}\``,
      '`DATABASE_URL`, `PUBSUB_PROJECT_ID`',
      '`INBOX_RETENTION_HOURS`',
    ]),
  ];
}
