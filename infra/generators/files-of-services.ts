import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError } from '@triplock/command';
import {
  composeFiles,
  declarations,
  type DeclaredService,
  isConsumer,
  problemsOfContributions,
  shownRights,
  subscriptionsOf,
} from '@triplock/launcher';
import type { Watch } from '@triplock/pipeline';
import { metricsOfKinds } from './files-of-kinds.ts';
import { filledIn, type GeneratedFile, root, sectionsOf } from './marked-parts.ts';

/**
 * The files written by hand of which a part is made from what services declare, with that part made
 * anew.
 *
 * @param clone where they are read.
 * @param declared made from these instead of the services that are listed.
 * @throws CommandError when a file has lost its marks, or what a service brings cannot be
 * assembled.
 */
export function filesOfServices(
  clone = root,
  declared: readonly DeclaredService[] = declarations,
): GeneratedFile[] {
  const problems = problemsOfContributions(clone, declared);
  if (problems.length > 0) throw new CommandError(problems.join('\n'));
  const file = filledIn(clone);
  const consumers = declared.flatMap(({ watch, ...each }) => (watch ? { ...each, watch } : []));
  const onTheWay = declared.flatMap(({ name, way, watch }) => {
    const its = way ?? watch;
    return its ? { name, ...its } : [];
  });
  return [
    file('libs/postgres/migration-sets.ts', {
      schemas: declared.flatMap(({ name, schema, inbox }) =>
        schema
          ? `{ service: '${name}', schema: '${schema}', inbox: ${inbox === true}, audit: ${hasAuditMigrations(clone, name)} },`
          : [],
      ),
    }),
    file('libs/postgres/access.ts', {
      pools: declared.flatMap(({ role, connections }) =>
        role ? `${role}: ${connections ?? 0},` : [],
      ),
    }),
    file('libs/pipeline/contributed.ts', {
      counters: onTheWay.flatMap(({ counters }) => entriesOf(counters)),
      gauges: onTheWay.flatMap(({ gauges }) => entriesOf(gauges)),
      hops: onTheWay.map(({ name, hop }) => `${JSON.stringify({ name, ...hop })},`),
      consumers: declared.flatMap(({ name, schema, watch }) =>
        watch ? `${JSON.stringify({ name, schema, trace: watch.trace })},` : [],
      ),
      rules: declared.flatMap(({ rules }) => entriesOf(rules)),
    }),
    file('services/auditor/checks/consumers.sql', {
      reaped: declared.flatMap(({ name }) => reapedOf(clone, name)),
      checks: declared.flatMap(({ name, rules }) => (rules ? checksOf(clone, name) : [])),
    }),
    file('docs/observability.md', {
      consumers: consumers.flatMap(metricsOf),
      'requests of each kind': metricsOfKinds(),
    }),
    file('docs/alerts.md', {
      runbooks: ['', ...declared.flatMap(({ name }) => runbooksOf(clone, name))],
    }),
    file('docs/failures.md', {
      'crash windows': [
        '',
        '| crash point | durable | then |',
        '| --- | --- | --- |',
        ...consumers.flatMap(({ watch }) =>
          Object.entries(watch.crashWindows).map(
            ([point, [durable, then]]) => `| \`${point}\` | ${durable} | ${then} |`,
          ),
        ),
        '',
      ],
    }),
    file('docs/operating.md', {
      consumers: [
        '',
        '| service | as the role | cannot start without | look at as well |',
        '| --- | --- | --- | --- |',
        ...consumers.map(({ name, role, watch: { manual } }) => {
          const link = `[${name}](../services/${name}/config.ts)`;
          return `| ${link} | \`${role}\` | ${manual.needs} | ${manual.lookAt} |`;
        }),
        '',
      ],
      subscriptions: [`for name in ${subscriptionsOf(declared).join(' ')}; do`],
      rights: ['', '| account | may |', '| --- | --- |', ...shownRights.pubsub, ''],
    }),
    file('libs/inspect/config.ts', {
      subscriptions: subscriptionsOf(declared).map((name) => `'${name}',`),
    }),
    file('libs/inspect/lacking-events.sql', {
      inboxes: declared.flatMap(({ schema, inbox }) =>
        inbox
          ? `OR NOT EXISTS (SELECT FROM ${schema}.inbox WHERE inbox.event_id = event.event_id)`
          : [],
      ),
    }),
    ...Object.entries(composeFiles(declared)).map(([path, parts]) => file(path, parts)),
    file('infra/observability/prometheus/prometheus.yml', {
      targets: ['names:', ...declared.map(({ name }) => `  - ${name}`)],
    }),
    file('infra/observability/prometheus/rules/events.yml', {
      ...alertsOfEvents(declared),
      rules: declared.flatMap(({ name }) => alertsOf(clone, name, 'rules')),
    }),
    file('infra/observability/prometheus/tests/events.yml', {
      tests: declared.flatMap(({ name }) => alertsOf(clone, name, 'tests')),
    }),
    file('infra/observability/prometheus/rules/services.yml', { expression: missing(declared) }),
    file('infra/observability/prometheus/tests/services.yml', { series: allUp(declared) }),
  ];
}

/** What every consumer of events tells, behind how its metrics begin. */
const metricsOfAll = [
  [
    'events_total',
    'outcome',
    'Events received, by outcome of the inbox. early: kept until an earlier one came.',
  ],
  [
    'refused_messages_total',
    'reason',
    'Messages that are not valid events: kept for inspection and acknowledged.',
  ],
  [
    'handle_seconds',
    'outcome',
    'Time from the arrival of a message to its ack or nack. failed: redelivered.',
  ],
  ['events_in_hand', '', 'Messages received and neither acknowledged nor given back yet.'],
  [
    'events_oldest_seconds',
    '',
    'Time since the oldest message in hand was published; 0 if there is none.',
  ],
  ['early_events', '', 'Events that came before the one that precedes them, kept until it comes.'],
  ['early_oldest_seconds', '', 'Time since the oldest of them was kept; 0 if there is none.'],
] as const;

/** A section of the manual on a consumer's metrics. */
function metricsOf(consumer: Pick<DeclaredService, 'name' | 'metrics'> & { watch: Watch }) {
  const { name, watch } = consumer;
  const told = [
    ...metricsOfAll.map(([metric, ...rest]) => [prefixOf(consumer) + metric, ...rest] as const),
    ...watch.metrics,
  ];
  return [
    '',
    `### Guard 3: ${name}`,
    '',
    '| metric | labels | what it tells |',
    '| --- | --- | --- |',
    ...told.map(([metric, labels, tells]) => {
      return `| \`${metric}\` | ${labels === '' ? '' : `\`${labels}\``} | ${tells} |`;
    }),
    '',
  ];
}

/** How the names of the metrics begin that every consumer has. */
function prefixOf({ metrics: [first] }: Pick<DeclaredService, 'metrics'>): string {
  return first ?? '';
}

/** The entries of an object of TypeScript. */
function entriesOf(object: object = {}): string[] {
  return Object.entries(object).map(([name, value]) => `'${name}': ${JSON.stringify(value)},`);
}

/** The statements of a service's checks, without the file's own comment. */
function checksOf(clone: string, name: string): string[] {
  const text = readFileSync(join(clone, 'services', name, 'audit/checks.sql'), 'utf8');
  return [...text.slice(text.indexOf('-- name: ')).trimEnd().split('\n'), ''];
}

/** What a service brings in a file that not every one has. */
function textOf(clone: string, name: string, file: string): string | undefined {
  const path = join(clone, 'services', name, file);
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}

/** The alerts of a service's own, or what tries them. */
function alertsOf(clone: string, name: string, part: 'rules' | 'tests'): string[] {
  const text = textOf(clone, name, 'watch/alerts.yml');
  if (text === undefined) return [];
  const found = new RegExp(`^${part}:\\n((?: .*\\n|\\n)+)`, 'm').exec(text);
  const lines = found?.[1]?.trimEnd().split('\n') ?? [];
  return lines.map((line) => line.slice(2));
}

/** What to do when they fire, a section each. */
function runbooksOf(clone: string, name: string): string[] {
  const text = textOf(clone, name, 'watch/runbooks.md');
  if (text === undefined) return [];
  return sectionsOf(text);
}

/** What of a service's tables left by age, beside what left its inbox. */
function reapedOf(clone: string, name: string): string[] {
  const text = textOf(clone, name, 'audit/reaped.sql');
  if (text === undefined) return [];
  return [
    'UNION ALL',
    ...text
      .slice(text.search(/^SELECT/m))
      .trimEnd()
      .split('\n'),
  ];
}

function hasAuditMigrations(clone: string, name: string): boolean {
  return existsSync(join(clone, 'services', name, 'audit/migrations'));
}

/** What tells that events are not finished, not followed or no events, at whoever receives them. */
function alertsOfEvents(declared: readonly DeclaredService[]): Record<string, string[]> {
  const receivers = declared.filter(isConsumer);
  const inboxes = receivers.filter(({ inbox }) => inbox);
  const [all, admitting] = [receivers.map(prefixOf), inboxes.map(prefixOf)];
  const expression = (over: string, series: readonly string[], bound: string) => [
    'expr: >-',
    `  ${over} by (service) (`,
    ...series.map((each, nth) => `    ${nth > 0 ? 'or ' : ''}${each}`),
    `  ) > ${bound}`,
  ];
  const increase = (metric: string) => all.map((prefix) => `increase(${prefix}${metric}[15m])`);
  return {
    unhandled: expression(
      'max',
      all.map((prefix) => `${prefix}events_oldest_seconds`),
      '60',
    ),
    early: expression(
      'max',
      admitting.map((prefix) => `${prefix}early_oldest_seconds`),
      '600',
    ),
    refused: expression(
      'sum',
      [...increase('refused_messages_total'), ...increase('events_total{outcome="altered"}')],
      '0',
    ),
  };
}

function missing(declared: readonly DeclaredService[]): string[] {
  return [
    'expr: >-',
    '  sum by (service) (up{job="triplock"}) == 0',
    ...declared.map(({ name }) => `  or absent(up{job="triplock",service="${name}"})`),
  ];
}

/** The worker's series stand by hand in the test: it is the one that goes away. */
function allUp(declared: readonly DeclaredService[]): string[] {
  return declared
    .filter(({ name }) => name !== 'ledger-worker')
    .flatMap(({ name }) => [
      `- series: 'up{job="triplock",service="${name}",instance="1"}'`,
      `  values: '1x30'`,
    ]);
}
