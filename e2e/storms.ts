import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { type Endpoints, killProcess } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { command } from './test/command.ts';
import { type Answer, newKey, type Partner } from './test/partner.ts';
import { type Setup, home, restore } from './test/system.ts';

/** A request and what came of it. */
export type Sent = { key: string; answer: Answer };

/**
 * Sends payments at a fixed rate until told to stop, whatever becomes of them; every fifth goes out
 * twice at once. Of requests that a killed gateway took with it nothing is told.
 */
export async function sendSteadily(
  from: Partner,
  { perSecond, stop }: { perSecond: number; stop: AbortSignal },
): Promise<Sent[]> {
  const sent: Promise<Sent | undefined>[] = [];
  const began = performance.now();
  const passedMs = () => performance.now() - began;
  while (!stop.aborted) {
    while (sent.length < (passedMs() / 1_000) * perSecond) {
      const key = newKey('storm');
      const copies = sent.length % 5 === 0 ? 2 : 1;
      for (let copy = 0; copy < copies; copy += 1) sent.push(trySend(from, key));
    }
    await delay(5);
  }
  return (await Promise.all(sent)).filter((each) => each !== undefined);
}

/** A killed gateway answers nothing at all, which tells the partner as little as a 503. */
async function trySend(from: Partner, key: string): Promise<Sent | undefined> {
  const body = { amount: 100, currency: 'EUR', reference: key };
  const answer = await from.pay(key, body).catch(() => undefined);
  return answer && { key, answer };
}

/**
 * Kills one process after the other and has the launcher bring each back, as long as it goes on and
 * so often at least.
 */
export async function killInTurn(
  names: readonly string[],
  storm: { everyMs: number; killsMin: number; goesOn(): boolean },
): Promise<void> {
  let kills = 0;
  while (kills < storm.killsMin || storm.goesOn()) {
    // A stride, so that the two of a service do not die one after the other.
    await killProcess({ home, name: names[(kills * 3) % names.length]! });
    kills += 1;
    await Promise.all([restore(), delay(storm.everyMs)]);
  }
}

/** A payment that was sent, and what came of it. */
type Paid = { key: string; body: unknown; answer: Answer };

/** Has clients pay, each one payment after the other, until it is told to stop. */
export function payInTurns(
  from: Partner,
  { clients, idleMs }: StormLoad['still'],
): { sent: Paid[]; stop(): Promise<void> } {
  const sent: Paid[] = [];
  let stopping = false;
  const pay = async () => {
    while (!stopping) {
      const [key, body] = [newKey('still'), { amount: 300, currency: 'EUR' }];
      sent.push({ key, body, answer: await from.pay(key, body) });
      await delay(idleMs);
    }
  };
  const paying = Array.from({ length: clients }, pay);
  return {
    sent,
    stop: async () => {
      stopping = true;
      await Promise.all(paying);
    },
  };
}

/** Ids of what was accepted, copies once. Nothing but 202, 409 and 503 may have been answered. */
export function acceptedIds(sent: readonly Sent[], atLeast: number): string[] {
  const odd = sent.filter(({ answer }) => ![202, 409, 503].includes(answer.status));
  assert.deepEqual(odd, []);
  const accepted = sent.filter(({ answer }) => answer.status === 202);
  const ids = accepted.map(({ answer }) => (JSON.parse(answer.body) as { id: string }).id);
  assert.ok(ids.length >= atLeast, `only ${ids.length} were accepted`);
  return [...new Set(ids)];
}

/** Waits until every id is in the ledger, each with one entry, and until the audit is green. */
export async function becomeFinalOnce({ look }: Setup, ids: readonly string[]): Promise<void> {
  await eventually(async () => (await look.inLedger(ids)).size === ids.length, {
    withinMs: 60_000,
    what: `all ${ids.length} accepted payments in the ledger`,
  });
  const [entries] = await look.ledger.query<{ n: number; once: number }>(
    `SELECT count(*)::int AS n, count(DISTINCT txn_id)::int AS once
     FROM ledger.entries WHERE txn_id = ANY($1::uuid[])`,
    [ids],
  );
  assert.deepEqual(entries, { n: ids.length, once: ids.length });
  const audit = await command('audit', '--wait', '60');
  assert.equal(audit.code, 0, audit.stdout + audit.stderr);
}

/** How much a storm sends, and how much of it must have been accepted for it to be one. */
type StormLoad = {
  /** Payments a second while processes are killed. */
  killing: { perSecond: number; acceptedPerSecondMin: number };
  /** Payments a second while workers come and go, or a dispatcher stands still. */
  steady: { perSecond: number; acceptedMin: number };
  /** Partners at once while Kafka stands still, each so long idle after an answer. */
  still: { clients: number; idleMs: number; acceptedMin: number; refusedMin: number };
  /** Requests under one key at once. */
  identical: number;
};

const usual: StormLoad = {
  killing: { perSecond: 200, acceptedPerSecondMin: 20 },
  steady: { perSecond: 60, acceptedMin: 200 },
  still: { clients: 32, idleMs: 0, acceptedMin: 200, refusedMin: 64 },
  identical: 1_000,
};

/** DynamoDB Local makes 50 to 200 claims a second on two cores (docs/stores.md). */
const onDynamoDbLocal: StormLoad = {
  killing: { perSecond: 40, acceptedPerSecondMin: 5 },
  steady: { perSecond: 20, acceptedMin: 60 },
  still: { clients: 16, idleMs: 100, acceptedMin: 100, refusedMin: 32 },
  identical: 100,
};

/**
 * What Spanner's emulator posts on two cores is a fraction of what PostgreSQL does
 * (docs/stores.md), and the rest of a load would only wait in Kafka.
 */
const onSpannerEmulator: StormLoad = {
  killing: { perSecond: 10, acceptedPerSecondMin: 2 },
  steady: { perSecond: 5, acceptedMin: 30 },
  still: { clients: 8, idleMs: 500, acceptedMin: 40, refusedMin: 16 },
  identical: 100,
};

/** What a system can bear: emulators stand for stores that bear more. */
export function stormLoadOf({ ledger, claims }: Endpoints): StormLoad {
  if (ledger === 'spanner') return onSpannerEmulator;
  return claims === 'dynamodb' ? onDynamoDbLocal : usual;
}
