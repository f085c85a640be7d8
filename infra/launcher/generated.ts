import { readFileSync } from 'node:fs';
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
import { cloneFolder } from './home.ts';
import { databaseUrls } from './provision/database.ts';
import { heapWithin, services } from './service-table.ts';
import { declarations, isConsumer, type DeclaredService } from './services.ts';
import { simulatedStripe } from './stripe.ts';
import { settingsOf, type Wiring } from './wiring.ts';

/** A file that `npm run generate` writes, from the clone's root, and what belongs into it. */
export type GeneratedFile = { path: string; text: string };

/**
 * The files written by hand of which a part is made from the services' declarations, with that part
 * made anew. Each part stands between two marks; around them nothing changes.
 *
 * @param clone where they are read.
 * @param declared made from these instead of the services that are listed.
 * @throws CommandError when a file has lost its marks.
 */
export function filesOfServices(
  clone = cloneFolder,
  declared: readonly DeclaredService[] = declarations,
): GeneratedFile[] {
  const file = (path: string, parts: Readonly<Record<string, string[]>>) => {
    let text = readFileSync(join(clone, path), 'utf8');
    for (const [part, lines] of Object.entries(parts)) text = fill(text, { path, part, lines });
    return { path, text };
  };
  const folders = mountedFolders(declared);
  return [
    file('libs/postgres/migration-sets.ts', {
      schemas: declared.flatMap(({ name, schema, inbox }) =>
        schema ? `{ service: '${name}', schema: '${schema}', inbox: ${inbox === true} },` : [],
      ),
    }),
    file('libs/postgres/access.ts', {
      pools: declared.flatMap(({ role, connections }) =>
        role ? `${role}: ${connections ?? 0},` : [],
      ),
    }),
    file('libs/inspect/config.ts', {
      subscriptions: declared.flatMap(({ events }) =>
        events?.does === 'receive' ? `'${events.subscription}',` : [],
      ),
    }),
    file('libs/inspect/lacking-events.sql', {
      inboxes: declared.flatMap(({ schema, inbox }) =>
        inbox
          ? `OR NOT EXISTS (SELECT FROM ${schema}.inbox WHERE inbox.event_id = event.event_id)`
          : [],
      ),
    }),
    file('libs/inspect/dead-letters.sql', {
      refused: declared.flatMap(({ schema, inbox }) =>
        inbox ? `UNION ALL SELECT * FROM ${schema}.refused_messages` : [],
      ),
    }),
    file('docker-compose.yml', {
      services: declared.flatMap((service, index) => [
        ...(index > 0 ? [''] : []),
        ...composeService(service),
      ]),
      'mounted volumes': folders.map((name) => `- for-${name}:${writtenAt(name, '/run/triplock')}`),
      'named volumes': folders.map((name) => `for-${name}:`),
    }),
    file('infra/images/Dockerfile', { folders: imageFolders(folders) }),
    file('infra/observability/prometheus/prometheus.yml', {
      targets: ['names:', ...declared.map(({ name }) => `  - ${name}`)],
    }),
    file('infra/observability/prometheus/rules/services.yml', { expression: missing(declared) }),
    file('infra/observability/prometheus/tests/services.yml', { series: allUp(declared) }),
  ];
}

/** Puts lines between the marks of a part, indented as the first mark is. */
function fill(
  text: string,
  { path, part, lines }: { path: string; part: string; lines: readonly string[] },
): string {
  const comment = path.endsWith('.ts') ? '//' : path.endsWith('.sql') ? '--' : '#';
  const begin = `${comment} --- ${part}, by npm run generate`;
  const end = `${comment} --- end of ${part}`;
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
const sharesBehindOthers = 340;

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
    ...(isConsumer(service) ? [`  cpu_shares: ${sharesBehindOthers}`] : []),
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

/** What a service's container is given beyond what all are, whatever the stores. */
function environmentOf(service: DeclaredService): [string, string][] {
  const listening = service.ports
    .filter(({ use }) => use !== 'admin')
    .flatMap(({ setting, inside }): [string, string][] => [
      [setting.replace(/PORT$/, 'HOST'), '0.0.0.0'],
      [setting, `${inside}`],
    ]);
  const inFiles: readonly string[] = settingsInFiles;
  const settings = new Map(wirings().flatMap((each) => Object.entries(settingsOf(service, each))));
  const given = [...settings]
    // Of the ledger all are given the same.
    .filter(([name]) => !(service.ledger && /^(LEDGER_STORE|SPANNER_\w+)$/.test(name)))
    .map(([name, value]): [string, string] => {
      if (inFiles.includes(name)) return [`${name}_FILE`, fileOf(name)];
      return [name, chosenOutside[name] ?? value];
    });
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
      stripe: {
        ...simulatedStripe(inNetwork.stripe),
        webhooks: { url: inNetwork.stripeWebhooks, secrets: 'whsec_some' },
      },
      claims,
      ledger,
    })),
  );
}

/** Where volumes are mounted: the steps have a folder for each service that is given something. */
function imageFolders(folders: readonly string[]): string[] {
  return [
    'RUN cd /run && install -d -o node -g node /data credentials triplock \\',
    ...folders.map((name, index) => `    wiring/${name}${index < folders.length - 1 ? ' \\' : ''}`),
  ];
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
