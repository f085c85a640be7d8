import { databaseErrorKind, loadSql, type Database } from '@triplock/postgres';
import type { Effect, ReapedInbox, ReceivedEvent } from '../inbox.ts';
import { receiveInRounds, receiveOneByOne, type Outcomes } from '../receive-in-rounds.ts';
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
export function openInbox(database: Database, consumer: string): ReapedInbox {
  const store = { database, consumer };
  const receiveMany = (received: readonly ReceivedEvent[], effect: Effect) =>
    receiveInRounds(received, (round) => receiveRound(store, round, effect));
  return {
    receive: async (received, effect) => (await receiveMany([received], effect))[0]!,
    receiveMany,
    async reap({ keepMs, rowsMax }) {
      const parameters = [consumer, keepMs, rowsMax];
      const [row] = await database.query<{ reaped: number }>(reapSql, parameters);
      return row!.reaped;
    },
  };
}

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
    if (round.length > 1) return receiveOneByOne(round, (one) => receiveRound(store, one, effect));
    const [only] = round;
    if (known) return [[only!, await whyNotApplied(store, only!)]];
    return [[only!, { outcome: 'unstorable', detail: String(error) }]];
  }
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
