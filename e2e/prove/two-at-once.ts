import { mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Endpoints, isSameProcess, startTimeOf } from '@triplock/launcher';
import { UsageError, type Terminal } from '@triplock/command';
import { eventually } from '@triplock/testing';
import { newKey, partner } from '../test/partner.ts';
import { runIn } from './scratch-clone.ts';

const root = resolve(import.meta.dirname, '../..');

/** What `--json` prints. */
export type ProvenStarts = { ok: boolean; seconds: number; times: number; failed: string[] };

type Invocation = { terminal: Terminal; signal: AbortSignal };

/** How often two systems start at once.  @throws UsageError for no whole number from 1 to 999. */
export function chooseTimes(word: string | undefined, usual: number): number {
  if (word === undefined) return usual;
  if (/^[1-9]\d{0,2}$/.test(word)) return Number(word);
  throw new UsageError(`--times is a whole number from 1 to 999, not '${word}'`);
}

/**
 * Starts two whole systems at once on this machine, pays in both under one key, and ends both at
 * once; as often as asked, also after a round that failed. Each round begins with empty homes, so
 * every part and service has its port to find while the other system looks for its own.
 */
export async function proveTwoAtOnce(
  times: number,
  { terminal, signal }: Invocation,
): Promise<ProvenStarts> {
  const began = performance.now();
  const failed: string[] = [];
  const homes = ['one', 'other'].map((name) => join(root, '.triplock', 'two-at-once', name));
  for (let round = 1; round <= times; round += 1) {
    terminal.progress(`${round} of ${times}`);
    const since = performance.now();
    const why = await oneRound(homes, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      return error instanceof Error ? error.message : String(error);
    });
    if (why !== undefined) failed.push(`${round} of ${times}: ${why}`);
    const took = `${Math.round((performance.now() - since) / 1_000)} s`;
    terminal.note(why === undefined ? `${round} of ${times}: apart, in ${took}` : failed.at(-1)!);
  }
  const seconds = Math.round((performance.now() - began) / 1_000);
  return { ok: failed.length === 0, seconds, times, failed };
}

async function oneRound(homes: readonly string[], signal: AbortSignal): Promise<undefined> {
  const never = new AbortController().signal;
  await Promise.all(homes.map((home) => command(never, 'down', '--volumes', '--home', home)));
  for (const home of homes) mkdirSync(home, { recursive: true });
  try {
    const ups = homes.map((home) => command(signal, 'up', '--json', '--home', home));
    // Both to their end: one that is left behind would start what nobody stops.
    const [one, other] = (await everyOne(ups)).map((text) => JSON.parse(text) as Endpoints);
    seeNothingShared(one!, other!);
    const systems = [one!, other!];
    const processes = systems.flatMap(({ services }) => services.map(({ pid }) => identity(pid)));
    await everyOne(systems.map((system, n) => payOnce(system, 1_000 + n)));
    await everyOne(homes.map((home) => command(never, 'down', '--home', home)));
    const left = processes.filter(isSameProcess);
    if (left.length > 0) throw new Error(`${left.length} services live on after down`);
  } finally {
    await everyOne(homes.map((home) => command(never, 'down', '--volumes', '--home', home)));
    for (const home of homes) rmSync(home, { recursive: true, force: true });
  }
}

function command(signal: AbortSignal, ...words: string[]): Promise<string> {
  return runIn(root, [process.execPath, 'infra/launcher/triplock.mjs', ...words], signal);
}

/** Every one of the results, once all have come; throws what the first of them failed with. */
async function everyOne<Result>(all: readonly Promise<Result>[]): Promise<Result[]> {
  const ended = await Promise.allSettled(all);
  return ended.map((each) => {
    if (each.status === 'rejected') throw each.reason;
    return each.value;
  });
}

function identity(pid: number) {
  const startedAt = startTimeOf(pid);
  if (startedAt === undefined) throw new Error(`process ${pid} ended before the system was used`);
  return { pid, startedAt };
}

/** Also not between one's parts and the other's services: every address is one server's. */
function seeNothingShared(...systems: Endpoints[]): void {
  const addresses = systems.flatMap(({ redis, kafka, postgres, pubsub, ...system }) => {
    const parts = [redis, kafka, pubsub].flatMap((each) => each.split(','));
    const ours = system.services.map(({ health }) => health);
    const urls = [postgres, ...system.gateways, ...system.providers.stripe.webhooks, ...ours];
    const hosts = [...urls, system.providers.stripe.url, system.catcher].map(
      (url) => new URL(url).host,
    );
    return [...parts.map((part) => part.replace(/^.*\/\/(.*@)?/, '')), ...hosts];
  });
  const shared = addresses.filter((each, n) => addresses.indexOf(each) !== n);
  if (shared.length > 0) throw new Error(`both have ${shared.join(', ')}`);
}

/** One key in both systems, with an amount of its own: a shared store would show the other's. */
async function payOnce(system: Endpoints, amount: number): Promise<void> {
  const acme = partner(system, 'acme');
  const accepted = await acme.pay(key, { amount, currency: 'EUR' });
  if (accepted.status !== 202) throw new Error(`a payment got ${accepted.status}`);
  const { id } = JSON.parse(accepted.body) as { id: string };
  const final = JSON.parse((await acme.payment(id, 30)).body) as Record<string, unknown>;
  if (final['status'] !== 'succeeded' || final['amount'] !== amount)
    throw new Error(`the payment of ${amount} is ${JSON.stringify(final)}`);
  const received = async () => {
    const answer = await fetch(`${system.catcher}/received?txn=${id}`);
    const { length } = (await answer.json()) as unknown[];
    if (length > 1) throw new Error(`one payment came by ${length} webhooks`);
    return length === 1;
  };
  await eventually(received, { withinMs: 60_000, what: 'the webhook of the payment' });
}

const key = newKey('two-at-once');
