import { databaseErrorKind, loadSql, type Database } from '@triplock/postgres';
import type { Effect, Inbox, ReceivedEvent, ReceiveOutcome } from '../inbox.ts';
import { roundsOf } from '../rounds-of.ts';
import { whyNotApplied } from './why-not-applied.ts';

const admitEvents = loadSql(import.meta.url, 'admit-events.sql');
const reapSql = loadSql(import.meta.url, 'reap.sql');

/** Leaves the transaction so that it rolls back: a cursor moved for an event whose id was known. */
class KnownInTurn extends Error {
  override name = 'KnownInTurn';
}

type Store = { database: Database; consumer: string };

/**
 * A consumer's inbox in the schema that the database's role works in. `consumer` is part of every
 * key, so two consumers of one schema do not see each other.
 */
export function openInbox(database: Database, consumer: string): Inbox {
  const store = { database, consumer };
  return {
    receive: async (received, effect) => (await receiveMany(store, [received], effect))[0]!,
    receiveMany: (received, effect) => receiveMany(store, received, effect),
    async reap({ keepMs, rowsMax }) {
      const parameters = [consumer, keepMs, rowsMax];
      const [row] = await database.query<{ reaped: number }>(reapSql, parameters);
      return row!.reaped;
    },
  };
}

async function receiveMany(
  store: Store,
  received: readonly ReceivedEvent[],
  effect: Effect,
): Promise<ReceiveOutcome[]> {
  // The same object given twice is two copies, each with an outcome of its own.
  const copies = received.map((each) => ({ ...each }));
  const outcomes = new Map<ReceivedEvent, ReceiveOutcome>();
  for (const round of roundsOf(copies)) {
    for (const [each, outcome] of await receiveRound(store, round, effect)) {
      outcomes.set(each, outcome);
    }
  }
  return copies.map((each) => outcomes.get(each)!);
}

type Outcomes = readonly (readonly [ReceivedEvent, ReceiveOutcome])[];

/** Receives events of different payments. What fails together is tried again one by one. */
async function receiveRound(
  store: Store,
  round: readonly ReceivedEvent[],
  effect: Effect,
): Promise<Outcomes> {
  try {
    const applied = await applyThoseInTurn(store, round, effect);
    const judge = async (each: ReceivedEvent): Promise<Outcomes[number]> => [
      each,
      applied.has(each) ? { outcome: 'applied' } : await whyNotApplied(store, each),
    ];
    return await Promise.all(round.map(judge));
  } catch (error) {
    const known = error instanceof KnownInTurn;
    if (!known && databaseErrorKind(error) !== 'data') throw error;
    if (round.length > 1) return receiveOneByOne(store, round, effect);
    const [only] = round;
    if (known) return [[only!, await whyNotApplied(store, only!)]];
    return [[only!, { outcome: 'unstorable', detail: String(error) }]];
  }
}

async function receiveOneByOne(
  store: Store,
  round: readonly ReceivedEvent[],
  effect: Effect,
): Promise<Outcomes> {
  const outcomes = [];
  for (const each of round) outcomes.push(...(await receiveRound(store, [each], effect)));
  return outcomes;
}

type Admission = { at: number; remembered: boolean };

function applyThoseInTurn(
  { database, consumer }: Store,
  round: readonly ReceivedEvent[],
  effect: Effect,
): Promise<ReadonlySet<ReceivedEvent>> {
  const columns = [
    round.map(({ event }) => event.event_id),
    round.map(({ payloadHash }) => payloadHash),
    round.map(({ event }) => event.payment_id),
    round.map(({ event }) => event.sequence ?? null),
  ];
  return database.transaction(async (tx) => {
    const rows = await tx.query<Admission>(admitEvents, [consumer, ...columns]);
    const inTurn = rows.map(({ at, remembered }) => ({ each: round[at - 1]!, remembered }));
    if (inTurn.some(({ each, remembered }) => !remembered && each.event.sequence !== undefined)) {
      throw new KnownInTurn();
    }
    const applied = inTurn.filter(({ remembered }) => remembered).map(({ each }) => each);
    if (applied.length > 0) {
      await effect(
        tx,
        applied.map(({ event }) => event),
      );
    }
    return new Set(applied);
  });
}
