import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { basename, join, relative, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Endpoints } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { newKey, partner } from '../test/partner.ts';

/** What the journey leads through, in its order. */
const stations = [
  'ingest-gateway',
  'ledger-worker',
  'outbox-dispatcher',
  'partner-notifier',
] as const;

/** The files of each service that ran, by their paths from the root, sorted. */
export type RanFiles = Readonly<Record<(typeof stations)[number], readonly string[]>>;

/** How a payment is paid: by a transfer between the ledger's accounts, or with a card. */
export type PaymentKind = 'transfer' | 'card';

const bodies: Readonly<Record<PaymentKind, unknown>> = {
  transfer: { amount: 1_999, currency: 'EUR', reference: 'order-7' },
  card: { amount: 1_999, currency: 'EUR', payment_method: 'pm_card_visa' },
};

/** Longer than the slowest loop that a payment's files turn in. */
const idleMs = 22_000;

/** A system whose services count what runs, and the folder into which they write it. */
export type CountedSystem = { system: Endpoints; folder: string };

/** Settings under which every station counts what runs; what the folder held is forgotten. */
export function countingSettings(folder: string) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return Object.fromEntries(stations.map((name) => [name, coverageSettings(folder)]));
}

/** So many that a pass of some loop falls into one of them perhaps, and hardly into all. */
const followed = 3;

/**
 * Sends payments, one after the other, through a system that does nothing else, and says which
 * files ran for each of them from the request to the partner's 2xx: what ran for one alone was a
 * loop's, however long it took on a busy machine. Another of its kind goes before them: what a
 * process does once, such as opening a connection, is not the journey.
 */
export async function followPayment(counted: CountedSystem, kind: PaymentKind): Promise<RanFiles> {
  await delivered(counted.system, await pay(counted.system, kind));
  let ran = await followOne(counted, kind);
  for (let n = 1; n < followed; n += 1) ran = inBoth(ran, await followOne(counted, kind));
  return ran;
}

async function followOne(counted: CountedSystem, kind: PaymentKind): Promise<RanFiles> {
  await ranSince(counted, stations);
  const id = await pay(counted.system, kind);
  // Before the gateway is asked for the delivery, which is not on the payment's way.
  const before = await ranSince(counted, stations.slice(0, -1));
  await delivered(counted.system, id);
  return { ...before, ...(await ranSince(counted, stations.slice(-1))) } as RanFiles;
}

function inBoth(one: RanFiles, other: RanFiles): RanFiles {
  const kept = stations.map((name) => [
    name,
    one[name].filter((file) => other[name].includes(file)),
  ]);
  return Object.fromEntries(kept) as RanFiles;
}

/** What runs while nobody pays: loops, probes and clocks. */
export async function followNobody(counted: CountedSystem): Promise<RanFiles> {
  await ranSince(counted, stations);
  await delay(idleMs);
  return (await ranSince(counted, stations)) as RanFiles;
}

/** Every file once, of all services. */
export function distinct(ran: RanFiles): Set<string> {
  return new Set(Object.values(ran).flat());
}

/** What ran in the services since they were asked last. */
async function ranSince(
  { system, folder }: CountedSystem,
  services: readonly string[],
): Promise<Partial<RanFiles>> {
  const entries = services.map(async (name) => {
    const files = await takeRanFiles(pidOf(system, name), folder);
    return [name, [...files].sort()];
  });
  return Object.fromEntries(await Promise.all(entries)) as Partial<RanFiles>;
}

/** The id of a payment whose webhook the partner has answered. */
async function pay(system: Endpoints, kind: PaymentKind): Promise<string> {
  const accepted = await partner(system, 'acme').pay(newKey('journey'), bodies[kind]);
  if (accepted.status !== 202) throw new Error(`the gateway answers ${accepted.body}`);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const received = new URL(`/received?txn=${id}`, system.catcher);
  await eventually(async () => ((await (await fetch(received)).json()) as unknown[]).length > 0, {
    withinMs: 30_000,
    what: 'the webhook',
  });
  return id;
}

/** Returns when the notifier has written down that the partner answered. */
async function delivered(system: Endpoints, id: string): Promise<void> {
  const path = '/v1/webhook-deliveries?limit=1&status=delivered';
  const acme = partner(system, 'acme');
  await eventually(async () => (await acme.send({ path })).body.includes(id), {
    withinMs: 30_000,
    what: 'the delivery',
  });
}

function pidOf(system: Endpoints, service: string): number {
  const running = system.services.find((each) => each.service === service);
  if (running === undefined) throw new Error(`${service} does not run`);
  return running.pid;
}

/** What `takeCoverage` of node:v8 writes, as far as it is read here. */
type Report = { result: { url: string; functions: CountedFunction[] }[] };
type CountedFunction = { ranges: { startOffset: number; count: number }[] };

const root = resolve(import.meta.dirname, '../..');
const ours = `${pathToFileURL(root).href}/`;

/** Settings under which a service counts what runs and writes it when it is asked. */
function coverageSettings(folder: string): Readonly<Record<string, string>> {
  const preload = new URL('./take-coverage.mjs', import.meta.url).href;
  return { NODE_V8_COVERAGE: folder, NODE_OPTIONS: `--import ${preload}` };
}

/**
 * The product's files of which a function ran in the process since this was asked last, by their
 * paths from the root. Loading a file is not running it.
 *
 * @throws when the process writes nothing within 15 s: it was not started with the settings above.
 */
async function takeRanFiles(pid: number, folder: string): Promise<Set<string>> {
  const isIts = (name: string) => name.startsWith(`coverage-${pid}-`);
  for (const name of readdirSync(folder).filter(isIts)) rmSync(join(folder, name));
  process.kill(pid, 'SIGUSR2');
  const report = await eventually(
    async () => {
      const name = readdirSync(folder).find(isIts);
      return name !== undefined && (JSON.parse(readFileSync(join(folder, name), 'utf8')) as Report);
    },
    { withinMs: 15_000, what: `coverage of process ${pid}` },
  );
  const ran = report.result
    .filter(({ url }) => url.startsWith(ours) && url.endsWith('.ts'))
    .filter(({ functions }) => functions.some(hasRun))
    .map(({ url }) => relative(root, fileURLToPath(url)));
  return new Set(ran);
}

/** The function that begins at 0 is the module itself, which runs when the file is loaded. */
function hasRun({ ranges: [whole] }: CountedFunction): boolean {
  return whole !== undefined && whole.startOffset > 0 && whole.count > 0;
}

const page = 'docs/journey.md';

/** The files that docs/journey.md leads through in its table, in its order. */
export function pageFiles(): string[] {
  const text = readFileSync(join(root, page), 'utf8');
  const rows = text.split('\n').filter((line) => /^\|\s*\d+\s*\|/.test(line));
  return rows.flatMap((row) => /\]\(\.\.\/([^)#]+)\)/.exec(row)?.[1] ?? []);
}

/**
 * What the page names that did not happen: a file that did not run for the payment, or one that ran
 * in a service before the one that the page has reached. Empty when the page is true.
 */
export function untrueSteps(named: readonly string[], ran: RanFiles): string[] {
  if (named.length === 0) return [`${page}: its table names no file`];
  const wrong: string[] = [];
  let reached = 0;
  for (const file of named) {
    const at = stationsOf(file, ran);
    const next = at.find((station) => station >= reached);
    if (at.length === 0) wrong.push(`${page}: ${file} did not run for the payment`);
    else if (next === undefined) wrong.push(`${page}: ${file} runs before the step above it`);
    else reached = next;
  }
  return wrong;
}

/** A statement or a script runs where a file ran that loads it by its name. */
function stationsOf(file: string, ran: RanFiles): number[] {
  const isCode = file.endsWith('.ts');
  return stations.flatMap((name, station) => {
    const runs = isCode
      ? ran[name].includes(file)
      : ran[name].some((each) => loads(each, basename(file)));
    return runs ? [station] : [];
  });
}

function loads(path: string, name: string): boolean {
  return readFileSync(join(root, path), 'utf8').includes(name);
}
