import { ledgerSettings } from '@triplock/ledgers';
import { pathOfReports, providerNamed, providerNames } from '@triplock/providers';
import type { ProgramOfNpm } from '@triplock/runtime';
import { claimStores, ledgerStores } from '../choices.ts';
import { type DeclaredPart, declaredParts, heapOf, workspaceOf } from '../parts/store-parts.ts';
import { accountAt, settingsGiven, settingsOfAccounts, simulatorSecret } from '../providers.ts';
import { databaseUrls } from '../provision/database.ts';
import { heapWithin, services } from '../service-table.ts';
import { declarations, isWaitedFor, type DeclaredService } from '../services.ts';
import { claimsAt, ledgerAt, settingsOf, type Wiring } from '../wiring.ts';
import { fileOf, inNetwork, networkWiring, settingsInFiles, writtenAt } from './network.ts';

/**
 * The parts of docker-compose.yml and of the Dockerfile that follow from what services, stores and
 * providers declare, by file and by the name of the part, as `npm run generate` writes them there.
 */
export function composeFiles(
  declared: readonly DeclaredService[],
): Record<string, Record<string, string[]>> {
  const folders = mountedFolders(declared);
  return {
    'docker-compose.yml': {
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
      'accounts given': settingsGiven.map((name) => `${name}: \${${name}:-}`),
      'volumes of providers': providerNames.map((provider) => `${provider}:`),
      'parts of stores': composeParts(),
      'volumes of stores': volumesOfParts(),
    },
    'infra/images/Dockerfile': { folders: imageFolders(folders) },
  };
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

/** The containers of servers that stores bring along. */
function composeParts(): string[] {
  return declaredParts.flatMap((part, index) => {
    const { name, program, port, container } = part;
    const { memoryMiB, ready, lacks } = container;
    const published = `127.0.0.1:\${${port.variable}:-${port.usual}}:${container.port}`;
    const healthcheck = `{ <<: *looks, test: [CMD, /app/ask-ready.sh, '${container.port}', ${ready}] }`;
    return [
      ...(index > 0 ? [''] : []),
      ...(lacks.healthCheck ? [`# Nothing asks whether it is ready: ${lacks.healthCheck}.`] : []),
      `${name}:`,
      `  <<: *${container.image ? 'part' : 'ours'}`,
      `  profiles: [${name}]`,
      ...(program.from === 'npm' ? imageOfOurs(part, program) : imageOfOthers(part)),
      `  mem_limit: ${memoryMiB}m`,
      `  ports: ['${published}']`,
      ...(program.from === 'npm' ? placeOf(part, program) : []),
      ...(ready === undefined ? [] : [`  healthcheck: ${healthcheck}`]),
    ];
  });
}

function imageOfOthers({ name, container: { image } }: DeclaredPart): string[] {
  if (image === undefined) throw new Error(`${name} has no image: name one in its part.ts`);
  const words = image.command.map((word) => (/^[\w./-]+$/.test(word) ? word : `'${word}'`));
  return [`  image: \${${image.variable}:-${image.name}}`, `  command: [${words.join(', ')}]`];
}

function imageOfOurs(part: DeclaredPart, program: ProgramOfNpm): string[] {
  return [
    `  image: triplock/${part.name}-${program.workspace}`,
    `  build: { <<: *image, args: { WORKSPACE: ${workspaceOf(part, program)} } }`,
    `  command: [node, ${heapOf(program).join(', ')}, main.ts]`,
  ];
}

function placeOf({ name, container: { port } }: DeclaredPart, program: ProgramOfNpm): string[] {
  const settings = program.settings({ host: '0.0.0.0', port, folder: '/data' });
  return [
    `  volumes: ['${name}:/data']`,
    '  environment:',
    ...Object.entries(settings).map(([setting, value]) => `    ${setting}: ${value}`),
  ];
}

/** And their volumes. */
function volumesOfParts(): string[] {
  return declaredParts.flatMap(({ name, program }) => (program.from === 'npm' ? `${name}:` : []));
}
