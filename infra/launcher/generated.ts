import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { claimStores, ledgerStores } from './choices.ts';
import {
  fileOf,
  inNetwork,
  networkWiring,
  settingsInFiles,
  writtenAt,
} from './containers/network.ts';
import { CommandError } from '@triplock/command';
import { problemsOfContributions } from './contributions.ts';
import { ledgerSettings } from '@triplock/ledgers';
import { transactionKinds, type TransactionKind } from '@triplock/payments';
import { statementsIn } from '@triplock/postgres';
import {
  componentsOfSdk,
  composeParts,
  partsToLookFor,
  volumesOfParts,
} from './generated-parts.ts';
import { cloneFolder } from './home.ts';
import { databaseUrls } from './provision/database.ts';
import { shownRights } from './broker-rights.ts';
import type { Watch } from '@triplock/pipeline';
import { heapWithin, services } from './service-table.ts';
import {
  declarations,
  isConsumer,
  isWaitedFor,
  subscriptionsOf,
  type DeclaredService,
} from './services.ts';
import { pathOfReports, providerNamed, providerNames } from '@triplock/providers';
import { accountAt, settingsOfAccounts, simulatorSecret } from './providers.ts';
import { claimsAt, ledgerAt, settingsOf, type Wiring } from './wiring.ts';

/** A file that `npm run generate` writes, from the clone's root, and what belongs into it. */
export type GeneratedFile = { path: string; text: string };

/**
 * The files written by hand of which a part is made from what services and stores declare, with
 * that part made anew. Each part stands between two marks; around them nothing changes.
 *
 * @param clone where they are read.
 * @param declared made from these instead of the services that are listed.
 * @throws CommandError when a file has lost its marks, or what a service brings cannot be
 * assembled.
 */
export function filesOfServices(
  clone = cloneFolder,
  declared: readonly DeclaredService[] = declarations,
): GeneratedFile[] {
  const problems = problemsOfContributions(clone, declared);
  if (problems.length > 0) throw new CommandError(problems.join('\n'));
  const file = filledIn(clone);
  const folders = mountedFolders(declared);
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
    file('docker-compose.yml', {
      services: declared.flatMap((service, index) => [
        ...(index > 0 ? [''] : []),
        ...composeService(service),
      ]),
      'mounted volumes': folders.map((name) => `- for-${name}:${writtenAt(name, '/run/triplock')}`),
      'named volumes': folders.map((name) => `for-${name}:`),
      ledgers: settingsOfEvery(ledgerStores, (store) => {
        const { LEDGER_STORE: _, ...own } = ledgerAt(store, inNetwork.parts, networkWiring.names);
        return own;
      }),
      'claim store': settingsOfEvery(claimStores, (store) => claimsAt(store, inNetwork.parts)),
      providers: composeSimulators(),
      'accounts of operators': Object.entries(settingsOfAccounts(accountsInNetwork()))
        .map(inContainer)
        .map(([name, value]) => `${name}: ${value}`),
      'accounts given': providerNames.flatMap((provider) => {
        const { keys, reports } = providerNamed(provider);
        const names = [...keys, ...(reports === undefined ? [] : [reports.secrets])];
        return names.map((name) => `${name}: \${${name}:-}`);
      }),
      'volumes of providers': providerNames.map((provider) => `${provider}:`),
      'parts of stores': composeParts(),
      'volumes of stores': volumesOfParts(),
    }),
    file('infra/images/Dockerfile', { folders: imageFolders(folders) }),
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

/** What the gateway counts of each kind of transaction. */
function metricsOfKinds() {
  return [
    '',
    '| metric | labels | what it tells |',
    '| --- | --- | --- |',
    ...transactionKinds.map((kind) => {
      return `| \`triplock_gateway_${kind}s_total\` | \`outcome\` | Requests for a ${kind}, by outcome. |`;
    }),
    '',
  ];
}

/**
 * The files of which a part is made of what each kind of transaction brings.
 *
 * @throws CommandError when a kind lacks one of its files.
 */
export function filesOfKinds(clone = cloneFolder): GeneratedFile[] {
  const file = filledIn(clone);
  const moved = transactionKinds.map((kind) => {
    const path = `services/auditor/kinds/${kind}.sql`;
    const accounts = statementsIn(readPart(clone, path, `what a ${kind} moves`));
    return { kind, debit: accounts.get('debit'), credit: accounts.get('credit') };
  });
  const accountOf = (side: 'debit' | 'credit') =>
    moved.flatMap(({ kind, [side]: account }) =>
      account === undefined ? [] : caseOf(kind, account.trim().split('\n')),
    );
  const told = transactionKinds.flatMap((kind) => {
    const path = `libs/contracts/kinds/${kind}.webhooks.json`;
    return JSON.parse(readPart(clone, path, `an example of each webhook`)) as object[];
  });
  return [
    file('services/auditor/checks/ledger.sql', {
      'kinds that move nothing': moved.flatMap(({ kind, debit }) =>
        debit === undefined ? [`AND transactions.kind <> '${kind}'`] : [],
      ),
      debits: accountOf('debit'),
      credits: accountOf('credit'),
    }),
    file('docs/partners.md', {
      'webhooks of kinds': ['', '```json', ...told.flatMap(webhookText), '```', ''],
    }),
  ];
}

/** A branch of a CASE by the kind. */
function caseOf(kind: TransactionKind, [only, ...more]: string[]): string[] {
  if (more.length === 0) return [`WHEN '${kind}' THEN ${only}`];
  return [`WHEN '${kind}' THEN`, ...[only, ...more].map((line) => `  ${line}`)];
}

/** The body of a webhook on two lines. */
function webhookText(body: object): string[] {
  return JSON.stringify(body).replace(',"data":', ',\n "data":').split('\n');
}

function readPart(clone: string, path: string, what: string): string {
  const file = join(clone, path);
  if (!existsSync(file)) throw new CommandError(`${path} is not there: it has ${what}`);
  return readFileSync(file, 'utf8');
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

/** The files of which a part is made of what stores declare, and that name no service. */
export function filesOfStores(clone = cloneFolder): GeneratedFile[] {
  const file = filledIn(clone);
  return [
    file('.github/workflows/ci.yml', { 'components of the SDK': componentsOfSdk() }),
    file('infra/launcher/look-first.mjs', { 'parts of stores': partsToLookFor() }),
  ];
}

/** Makes parts of a file anew, by their marks. */
function filledIn(clone: string) {
  return (path: string, parts: Readonly<Record<string, string[]>>): GeneratedFile => {
    let text = readFileSync(join(clone, path), 'utf8');
    for (const [part, lines] of Object.entries(parts)) text = fill(text, { path, part, lines });
    return { path, text };
  };
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
  return [...text.slice(text.indexOf('## ')).trimEnd().split('\n'), ''];
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

/** Puts lines between the marks of a part, indented as the first mark is. */
function fill(
  text: string,
  { path, part, lines }: { path: string; part: string; lines: readonly string[] },
): string {
  // A list of commands in a text has the comments of the shell.
  const isText = path.endsWith('.md') && lines[0] === '';
  const comment = /\.m?[tj]s$/.test(path)
    ? '//'
    : path.endsWith('.sql')
      ? '--'
      : isText
        ? '<!--'
        : '#';
  const begin = `${comment} --- ${part}, by npm run generate`;
  const end = `${comment} --- end of ${part}${isText ? ' -->' : ''}`;
  const found = new RegExp(`^( *)${begin}.*\\n[^]*?^ *${end}\\n`, 'm').exec(text);
  if (found === null) {
    throw new CommandError(`${path} lacks the marks '${begin}' and '${end}': put them back`);
  }
  const [whole, indent = ''] = found;
  const mark = whole.slice(0, whole.indexOf('\n'));
  const made = lines.map((line) => (line === '' ? '' : indent + line));
  return text.replace(whole, () => [mark, ...made, `${indent}${end}`, ''].join('\n'));
}

/** Every folder under /run/wiring, for each that the step before the services gives something. */
function mountedFolders(declared: readonly DeclaredService[]): string[] {
  const beside = services.slice(declarations.length).map(({ name }) => name);
  return [...declared.map(({ name }) => name), ...beside, 'k6', 'operator'];
}

/** Of 1 024: on a busy machine others go first, as they do natively (processes/start.ts). */
const sharesBehindOthers = 110;

function composeService(service: DeclaredService): string[] {
  const { name, memoryMiB, ledger, callsPartners } = service;
  const ports = publishedPorts(service);
  return [
    `${name}:`,
    '  <<: *service',
    `  image: triplock/${name}`,
    `  build: { <<: *image, args: { WORKSPACE: services/${name} } }`,
    `  command: [node, ${[...heapWithin(memoryMiB), 'main.ts'].join(', ')}]`,
    `  mem_limit: ${memoryMiB}m`,
    ...(isWaitedFor(service) ? [] : [`  cpu_shares: ${sharesBehindOthers}`]),
    `  volumes: ['for-${name}:/run/triplock:ro']`,
    '  ports:',
    ...ports.map((port) => `    - ${port}`),
    // A partner's server may be tried on the machine itself. Linux has no such name by itself.
    ...(callsPartners ? [`  extra_hosts: ['${inNetwork.machine}:host-gateway']`] : []),
    '  environment:',
    `    <<: ${ledger ? '[*settings, *ledger]' : '*settings'}`,
    ...environmentOf(service).map(([setting, value]) => `    ${setting}: ${value}`),
  ];
}

function publishedPorts({ ports }: DeclaredService): string[] {
  return ports.map(({ published, usual, inside }) => {
    return `127.0.0.1:\${${published}:-${usual}}:${inside}`;
  });
}

/** Settings that whoever starts the containers chooses. */
const chosenOutside: Readonly<Record<string, string>> = {
  CLAIMS: '${CLAIMS:-redis}',
  KAFKA_CLIENT: '${KAFKA_CLIENT:-kafkajs}',
};

/** A setting as a container is given it. */
function inContainer([name, value]: [string, string]): [string, string] {
  const inFiles: readonly string[] = settingsInFiles;
  if (inFiles.includes(name)) return [`${name}_FILE`, fileOf(name)];
  return [name, chosenOutside[name] ?? value];
}

/** Settings of whoever has to do with a store, whichever of its kind is chosen. */
function settingsOfEvery<Store>(
  stores: readonly Store[],
  settingsAt: (store: Store) => Readonly<Record<string, string>>,
): string[] {
  const settings = new Map(stores.flatMap((store) => Object.entries(settingsAt(store))));
  return [...settings].map(inContainer).map(([name, value]) => `${name}: ${value}`);
}

/** What a service's container is given beyond what all are, whatever the stores. */
function environmentOf(service: DeclaredService): [string, string][] {
  const listening = service.ports
    .filter(({ use }) => use !== 'admin')
    .flatMap(({ setting, inside }): [string, string][] => [
      [setting.replace(/PORT$/, 'HOST'), '0.0.0.0'],
      [setting, `${inside}`],
    ]);
  const settings = new Map(wirings().flatMap((each) => Object.entries(settingsOf(service, each))));
  const given = [...settings]
    // Of the ledger all are given the same.
    .filter(([name]) => !(service.ledger && name in ledgerSettings))
    .map(inContainer);
  // The catcher is in this network, whose addresses are private.
  const partners: [string, string][] = service.callsPartners
    ? [['WEBHOOK_TARGETS', 'private-too']]
    : [];
  // It listens on every address of its container, and compose publishes it on this machine alone.
  const published: [string, string][] =
    'CONSOLE_PUBLISHED_ON' in service.settings ? [['CONSOLE_PUBLISHED_ON', '127.0.0.1']] : [];
  return [...listening, ...given, ...partners, ...published];
}

/** What the step before the services writes down, in every choice of the stores. */
export function wirings(): Wiring[] {
  return claimStores.flatMap((claims) =>
    ledgerStores.map((ledger): Wiring => ({
      ...networkWiring,
      // Made at the first start, as the superuser's password is.
      controlToken: 'some',
      databases: databaseUrls(inNetwork.parts.postgres.replace('@', ':some@')),
      accounts: accountsInNetwork(),
      claims,
      ledger,
    })),
  );
}

/** Every provider as its simulator in the network. */
function accountsInNetwork(): Wiring['accounts'] {
  return providerNames.map((provider) => {
    const account = accountAt(provider, inNetwork.providers[provider]);
    const secrets = simulatorSecret(provider, 'some');
    if (secrets === undefined) return account;
    return { ...account, webhooks: { url: reportsIn(provider), secrets } };
  });
}

const reportsIn = (provider: (typeof providerNames)[number]) =>
  `${inNetwork.reports}${pathOfReports(provider)}`;

/** The containers of what stands for providers. */
function composeSimulators(): string[] {
  return providerNames.flatMap((provider, nth) => {
    const { simulator, reports } = providerNamed(provider);
    const { name, workspace, prefix, containerMiB, port } = simulator;
    const secret = `${prefix}_WEBHOOK_SECRET`;
    return [
      ...(nth > 0 ? [''] : []),
      `${name}:`,
      '  <<: *ours',
      '  restart: *restart',
      `  image: triplock/${name}`,
      `  build: { <<: *image, args: { WORKSPACE: ${workspace} } }`,
      `  mem_limit: ${containerMiB}m`,
      `  ports: ['127.0.0.1:\${${port.variable}:-${port.usual}}:${port.inside}']`,
      `  volumes: ['${provider}:/data', 'for-${name}:/run/triplock:ro']`,
      '  environment:',
      `    ${prefix}_HOST: 0.0.0.0`,
      `    ${prefix}_PORT: ${port.inside}`,
      `    CONTROL_TOKEN_FILE: ${fileOf('CONTROL_TOKEN')}`,
      `    ${prefix}_JOURNAL: /data/${provider}.jsonl`,
      ...(reports === undefined
        ? []
        : [
            `    ${prefix}_WEBHOOK_URL: ${reportsIn(provider)}`,
            `    ${secret}_FILE: ${fileOf(secret)}`,
          ]),
      '  depends_on:',
      '    provision: { condition: service_completed_successfully }',
      '  healthcheck:',
      '    <<: *looks',
      `    test: [CMD, /app/ask-ready.sh, '${port.inside}', /readyz]`,
    ];
  });
}

/** Where volumes are mounted: the steps have a folder for each service that is given something. */
function imageFolders(folders: readonly string[]): string[] {
  return [
    'RUN cd /run && install -d -o node -g node /data credentials triplock \\',
    ...folders.map((name, index) => `    wiring/${name}${index < folders.length - 1 ? ' \\' : ''}`),
  ];
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
