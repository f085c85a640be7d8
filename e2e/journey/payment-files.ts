import { mkdirSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Endpoints } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { newKey, partner } from '../test/partner.ts';
import { coverageSettings, takeRanFiles } from './coverage.ts';

/** What the journey leads through, in its order. */
export const stations = [
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
const idleMs = 12_000;

/** A system whose services count what runs, and the folder into which they write it. */
export type CountedSystem = { system: Endpoints; folder: string };

/** Settings under which every station counts what runs; what the folder held is forgotten. */
export function countingSettings(folder: string) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  return Object.fromEntries(stations.map((name) => [name, coverageSettings(folder)]));
}

/**
 * Sends one payment through a system that does nothing else, and says which files ran for it from
 * the request to the partner's 2xx. Another of its kind goes before it: what a process does once,
 * such as opening a connection, is not the journey.
 */
export async function followPayment(counted: CountedSystem, kind: PaymentKind): Promise<RanFiles> {
  await delivered(counted.system, await pay(counted.system, kind));
  await ranSince(counted, stations);
  const id = await pay(counted.system, kind);
  // Before the gateway is asked for the delivery, which is not on the payment's way.
  const before = await ranSince(counted, stations.slice(0, -1));
  await delivered(counted.system, id);
  return { ...before, ...(await ranSince(counted, stations.slice(-1))) } as RanFiles;
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
