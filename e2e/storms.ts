import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { storeNamed } from '@triplock/claim-stores';
import { type Endpoints, killProcess, runOf } from '@triplock/launcher';
import { ledgerStoreNamed } from '@triplock/ledgers';
import {
  type IdempotencyKey,
  type JsonValue,
  type PartnerId,
  type TxnId,
  deriveKeyConflictId,
  deriveTxnId,
  fingerprint,
} from '@triplock/payments';
import { createRandom, shuffled } from '@triplock/runtime';
import { eventually, stripeControl } from '@triplock/testing';
import { type Attempt, isAccepted, markOf } from './mixed-load.ts';
import { type Setup, command, home, upSystem } from './test/system.ts';
import { type Answer, type Partner, newKey } from './test/partner.ts';

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

/** A process of the system, and the service that it is one of. */
export type Victim = { name: string; service: string };

/** How a storm kills. */
export type KillStorm = {
  seed: number;
  /** Between a start and the next kill, at most. */
  everyMs: number;
  /** How many die at once, of which no two are of one service. */
  together: number;
  goesOn(): boolean;
  /** Called with the names of those that are about to be killed. */
  onKill?(names: readonly string[]): void;
};

/**
 * Kills every process of those given, in an order drawn from the seed, and has the launcher bring
 * each back; again in another order as long as the storm goes on.
 *
 * @returns the name of each process that was hit, as often as it was.
 */
export async function killEach(victims: readonly Victim[], storm: KillStorm): Promise<string[]> {
  const random = createRandom(storm.seed);
  const hits: string[] = [];
  do {
    for (const hand of dealt(shuffled(victims, random), storm.together)) {
      // Out of step with the services' own loops, and again before all is well.
      await delay(random() * storm.everyMs);
      storm.onKill?.(hand.map(({ name }) => name));
      hits.push(...(await killAtOnce(hand)));
    }
  } while (storm.goesOn());
  return hits;
}

/**
 * Kills all of these together and has the launcher bring them back. Returns the names of those that
 * ran, were gone, and run again as other processes, which must be all.
 */
export async function killAtOnce(victims: readonly Victim[]): Promise<string[]> {
  const names = victims.map(({ name }) => name);
  const runs = () => Promise.all(names.map((name) => runOf({ home, name })));
  const before = await runs();
  await Promise.all(names.map((name) => killProcess({ home, name })));
  const gone = await runs();
  await upSystem();
  for (const [n, run] of (await runs()).entries()) {
    const [name, was] = [names[n]!, before[n]];
    assert.ok(was !== undefined && gone[n] === undefined, `${name} was not killed`);
    assert.ok(run !== undefined && run !== was, `${name} was not brought back`);
  }
  return names;
}

/** Parts them, in their order, so that no part has two of a service. */
function dealt(victims: readonly Victim[], together: number): Victim[][] {
  const hands: Victim[][] = [];
  for (const victim of victims) {
    const fits = (hand: readonly Victim[]) =>
      hand.length < together && hand.every(({ service }) => service !== victim.service);
    const hand = hands.find(fits);
    if (hand === undefined) hands.push([victim]);
    else hand.push(victim);
  }
  return hands;
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

type Row = { id: TxnId; partner: string; amount: bigint; mark: string; state: string };

/** What a run must come to, and by when. */
type Expected = {
  /** What every key of the run begins with. */
  run: string;
  withinMs: number;
  /** Whether two bodies of one key may both get a 202, of which one ends in a key conflict. */
  races: 'none' | 'end in a key conflict';
};

/**
 * Judges a run by what was asked and answered, and by what is in the ledger and at the provider:
 * each key took effect once and with a body that was accepted, nothing else of the run did, and no
 * answer says otherwise.
 *
 * @returns how many bodies ended in a key conflict.
 */
export async function tookEffectOnce(
  setup: Setup,
  attempts: readonly Attempt[],
  { run, withinMs, races }: Expected,
): Promise<number> {
  const { look, system } = setup;
  const keys = Map.groupBy(attempts, txnIdOf);
  const rows = await eventually(async () => allFinal(await rowsOf(setup, run), keys.size), {
    withinMs,
    what: `a final row for each of ${keys.size} keys`,
  });
  assert.deepEqual(rows.map(({ id }) => id).sort(), [...keys.keys()].sort());
  const conflicts = await look.ledger.query<{ id: string; txnId: string }>(
    `SELECT event_id AS id, txn_id AS "txnId" FROM ledger.outbox
     WHERE txn_id = ANY($1::uuid[]) AND event_type = 'payment.key_conflict'`,
    [[...keys.keys()]],
  );
  if (races === 'none') assert.deepEqual(conflicts, []);
  const conflictsOf = Map.groupBy(conflicts, ({ txnId }) => txnId);
  for (const row of rows) {
    const conflicts = conflictsOf.get(row.id)?.map(({ id }) => id) ?? [];
    judgeKey(row, keys.get(row.id)!, { conflicts, races });
  }
  const [booked] = await look.ledger.query<{ entries: number }>(
    'SELECT count(*)::int AS entries FROM ledger.entries WHERE txn_id = ANY($1::uuid[])',
    [[...keys.keys()]],
  );
  assert.equal(booked?.entries, rows.filter(({ state }) => state === 'succeeded').length);
  const provider = stripeControl(system.providers.stripe.url, system.controlToken);
  const charged = await provider<{ chargedTwice: unknown[] }>('GET', '/audit?metadata_key=txn_id');
  assert.deepEqual(charged.chargedTwice, []);
  return conflicts.length;
}

function txnIdOf({ from, kind, key }: Attempt): TxnId {
  return deriveTxnId(kind, from.id as PartnerId, key as IdempotencyKey);
}

function rowsOf({ look }: Setup, run: string): Promise<Row[]> {
  return look.ledger.query<Row>(
    `SELECT txn_id AS id, partner_id AS partner, coalesce(requested_amount, amount) AS amount,
       coalesce(reference, details::jsonb ->> 'reason') AS mark, state
     FROM ledger.transactions WHERE starts_with(idempotency_key, $1)`,
    [run],
  );
}

function allFinal(rows: readonly Row[], count: number): readonly Row[] | undefined {
  return rows.length >= count && rows.every(({ state }) => state !== 'pending') ? rows : undefined;
}

/** Judges one key: the body that took effect, by its row, and every answer to it and to others. */
function judgeKey(
  row: Row,
  attempts: readonly Attempt[],
  { conflicts, races }: { conflicts: readonly string[]; races: Expected['races'] },
): void {
  const { mark, partner, amount, state } = row;
  const isOdd = ({ answer }: Attempt) => answer && ![202, 409, 422, 503].includes(answer.status);
  const odd = attempts.filter(isOdd);
  assert.deepEqual(odd, [], mark);
  const bodies = Map.groupBy(attempts, markOf);
  const won = bodies.get(mark) ?? assert.fail(`nobody asked for ${mark}`);
  const [{ from, body }] = won as [Attempt];
  const ends = body['payment_method'] === 'pm_card_chargeDeclined' ? 'failed' : 'succeeded';
  assert.deepEqual([partner, Number(amount), state], [from.id, body.amount, ends], mark);
  assert.ok(won.some(isAccepted), `${mark} took effect and nobody knows`);
  const refused = won.filter(({ answer }) => answer?.status === 422);
  // A loss may forget a body that had the key and was never accepted: then another one gets it.
  const isForgotten = races !== 'none' && bodies.size > 1;
  assert.ok(refused.length === 0 || isForgotten, `${mark} was refused and took effect`);

  bodies.delete(mark);
  const losers = new Map([...bodies.values()].map((of) => [conflictIdOf(of[0]!), of]));
  for (const id of conflicts) assert.ok(losers.has(id), `nobody asked for what ${id} refuses`);
  for (const [id, of] of losers) {
    const isReported = conflicts.includes(id);
    assert.ok(isReported || !of.some(isAccepted), `${markOf(of[0]!)} was accepted and is lost`);
  }
  for (const of of [won, ...bodies.values()]) {
    const texts = new Set(of.filter(isAccepted).map(({ answer }) => answer!.body));
    assert.ok(texts.size <= 1, `${markOf(of[0]!)} was answered by other bytes`);
  }
}

/** The id of the event that tells a partner that this body was refused by the ledger. */
function conflictIdOf(attempt: Attempt): string {
  const { paymentId, body } = attempt;
  const path = paymentId === undefined ? '/v1/payments' : `/v1/payments/${paymentId}/refunds`;
  const losing = fingerprint({ method: 'POST', path, body: body as JsonValue });
  return deriveKeyConflictId(txnIdOf(attempt), losing);
}

/** How much a storm sends, and how much of it must have been accepted for it to be one. */
type StormLoad = {
  /**
   * Stories a second while processes are killed, or so often all claims are lost, and how many
   * requests are accepted before and after at least.
   */
  mixed: { perSecond: number; acceptedMin: number; losses: number };
  /** Payments a second while workers come and go, or a dispatcher stands still. */
  steady: { perSecond: number; acceptedMin: number };
  /** Partners at once while Kafka stands still, each so long idle after an answer. */
  still: { clients: number; idleMs: number; acceptedMin: number; refusedMin: number };
  /** Requests under one key at once. */
  identical: number;
};

const usual: StormLoad = {
  mixed: { perSecond: 50, acceptedMin: 100, losses: 10 },
  steady: { perSecond: 60, acceptedMin: 200 },
  still: { clients: 32, idleMs: 0, acceptedMin: 200, refusedMin: 64 },
  identical: 1_000,
};

/** What stands for a claim store makes a fraction of Redis's claims, and takes as much CPU. */
const onClaimServer: StormLoad = {
  mixed: { perSecond: 10, acceptedMin: 30, losses: 4 },
  steady: { perSecond: 20, acceptedMin: 60 },
  still: { clients: 16, idleMs: 100, acceptedMin: 100, refusedMin: 32 },
  identical: 100,
};

/**
 * What stands for a ledger's store posts a fraction of what PostgreSQL does (docs/stores.md), and
 * the rest of a load would only wait in Kafka.
 */
const onLedgerServer: StormLoad = {
  mixed: { perSecond: 5, acceptedMin: 10, losses: 4 },
  steady: { perSecond: 5, acceptedMin: 30 },
  still: { clients: 8, idleMs: 500, acceptedMin: 40, refusedMin: 16 },
  identical: 100,
};

/** What a system can bear: emulators stand for stores that bear more. */
export function stormLoadOf({ ledger, claims }: Endpoints): StormLoad {
  if (ledgerStoreNamed(ledger).brings !== undefined) return onLedgerServer;
  return storeNamed(claims).brings === undefined ? usual : onClaimServer;
}
