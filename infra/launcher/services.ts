import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { auditor } from '@triplock/auditor/service';
import { ingestGateway } from '@triplock/ingest-gateway/service';
import { ledgerWorker } from '@triplock/ledger-worker/service';
import { operatorConsole } from '@triplock/console/service';
import { outboxDispatcher } from '@triplock/outbox-dispatcher/service';
import { partnerNotifier } from '@triplock/partner-notifier/service';
import type { ServiceDeclaration } from '@triplock/runtime';
import { problemsOfContributions } from './contributions.ts';
import { settlementFeed } from '@triplock/settlement-feed/service';
import { CommandError } from '@triplock/command';

/**
 * The services of the pipeline, a line each, in the order in which `down` stops them: first those
 * that take work in. What is true of a service stands in its own service.ts.
 */
export const pipeline = [
  ingestGateway,
  ledgerWorker,
  outboxDispatcher,
  partnerNotifier,
  settlementFeed,
  auditor,
  operatorConsole,
] as const satisfies readonly ServiceDeclaration[];

/** A service of the pipeline, of which nothing else is known. */
export type DeclaredService = ServiceDeclaration;

/** The same list, for those who ask every service the same. */
export const declarations: readonly DeclaredService[] = pipeline;

type Declared = (typeof pipeline)[number];
type Events = Extract<Declared, { events: object }>['events'];

/** The name of a service of the pipeline. */
export type ServiceName = Declared['name'];
/** A crash point of any of them. */
export type CrashPointName = Declared['crashPoints'][number];
/** What a subscription is called by default. */
export type SubscriptionName = Extract<Events, { does: 'receive' }>['subscription'];
/** What a consumer group is called by default. */
export type GroupName = {
  [Each in Declared as Each['name']]: Each extends { kafka: { groups: infer Groups } }
    ? Groups[keyof Groups]
    : never;
}[Declared['name']];
/** A role in the database, without `triplock_`. */
export type RoleOfService = Extract<
  Declared,
  { role: string }
>['role'] extends `triplock_${infer Name}`
  ? Name
  : never;

/** Its main file, from the clone's root. */
export function mainOf({ name }: Pick<DeclaredService, 'name'>): string {
  return `services/${name}/main.ts`;
}

/**
 * Whether partners or people wait for its answers. All others work on what is durable, and do more
 * of it at once the later they come to it.
 */
export function isWaitedFor({ ports }: DeclaredService): boolean {
  return ports.some(({ use }) => use === 'http');
}

/** Whether it works on what was published. */
export function isConsumer({ events }: DeclaredService): boolean {
  return events?.does === 'receive';
}

/** What the consumers among some services subscribe to. */
export function subscriptionsOf(declared: readonly DeclaredService[]): string[] {
  return declared.flatMap(({ events }) => (events?.does === 'receive' ? events.subscription : []));
}

/** Every subscription. */
export const subscriptionNames = subscriptionsOf(declarations) as SubscriptionName[];

/** Every consumer group, once. */
export const groupNames = [
  ...new Set(
    declarations.flatMap(({ kafka }) => Object.values(kafka?.groups ?? {}) as GroupName[]),
  ),
];

/** `ledger-worker` of `ledger-worker-2`. */
export function serviceOf(name: string): string {
  return name.replace(/-\d+$/, '');
}

/**
 * Has every service declared, and room for a second one of each beside its ports.
 *
 * @param others what else listens beside the services, and where.
 * @throws CommandError that names the file to mend and the next step.
 */
export function checkServices(
  cloneFolder: string,
  others: readonly { name: string; port: number }[],
  listed: readonly DeclaredService[] = declarations,
): void {
  const problems = [
    ...problemsOfFolders(join(cloneFolder, 'services'), listed),
    ...problemsOfContributions(cloneFolder, listed),
    ...problemsOfPorts(listed, others),
  ];
  if (problems.length > 0) throw new CommandError(problems.join('\n'));
}

const list = 'infra/launcher/services.ts';

function problemsOfFolders(folder: string, listed: readonly DeclaredService[]): string[] {
  const has = (name: string, file: string) => existsSync(join(folder, name, file));
  // The operator's commands stand beside the services, and nothing of it goes on running.
  const isService = (name: string) =>
    has(name, 'main.ts') &&
    readFileSync(join(folder, name, 'package.json'), 'utf8').includes('"kind:service"');
  const runs = readdirSync(folder).filter(isService);
  const isListed = (name: string) => listed.some((service) => service.name === name);
  const undeclared = runs.flatMap((name) => {
    if (!has(name, 'service.ts')) {
      return `services/${name} has no service.ts: declare it there, as the others do, and add a line to ${list}`;
    }
    return isListed(name) ? [] : `services/${name}/service.ts is not listed: add a line to ${list}`;
  });
  const gone = listed
    .filter(({ name }) => !runs.includes(name))
    .map(({ name }) => `${list} lists ${name}, and there is no services/${name}: remove its line`);
  return [...undeclared, ...gone];
}

function problemsOfPorts(
  listed: readonly DeclaredService[],
  others: readonly { name: string; port: number }[],
): string[] {
  const taken = others.map(({ name, port }) => ({ name, from: port, to: port }));
  const free = Math.max(...listed.flatMap(({ ports }) => ports.map(({ usual }) => usual))) + 10;
  return listed.flatMap(({ name, ports, copies }) =>
    ports.flatMap(({ usual: from, use }) => {
      const to = copies === 'one' ? from : from + 1;
      const other = taken.find((each) => from <= each.to && each.from <= to);
      taken.push({ name, from, to });
      if (other === undefined) return [];
      return `services/${name}/service.ts: its ${use} ports ${from} to ${to} are taken by ${other.name}: take others, such as those from ${free}`;
    }),
  );
}
