import {
  isRefusal,
  status,
  statusOf,
  WriteRefusedError,
  type SpannerDatabase,
  type SpannerTransaction,
} from '@triplock/spanner';
import type { Effect, Inbox, ReceivedEvent } from '../inbox.ts';
import { receiveInRounds, receiveOneByOne, type Outcomes } from '../receive-in-rounds.ts';
import { admitEvents } from './admit-events.ts';

/** For how long the migrations have Spanner keep inbox rows, at the least: for `checkRetention`. */
export const spannerInboxHours = 720;

/**
 * The inbox of a consumer that keeps its data in Spanner, in the database that has the consumer's
 * own tables. `consumer` is part of every key, so two consumers of one database do not see each
 * other.
 *
 * An effect is given Spanner's transaction: it reads what is committed, and what it writes is done
 * with the commit, by which time the inbox has written, too. It may run many times, so it calls
 * nobody else. What becomes of an event whose commit had no answer is found out by looking again:
 * when it did commit, the event is reported as a duplicate, as a redelivery would be.
 */
export function openSpannerInbox(
  database: SpannerDatabase,
  consumer: string,
): Inbox<SpannerTransaction> {
  const receiveMany: Inbox<SpannerTransaction>['receiveMany'] = (received, effect) =>
    receiveInRounds(received, (round) => receiveRound({ database, consumer }, round, effect));
  return {
    receive: async (received, effect) => (await receiveMany([received], effect))[0]!,
    receiveMany,
  };
}

type Store = { database: SpannerDatabase; consumer: string };

/** Receives events of different payments. What fails together is tried again one by one. */
async function receiveRound(
  store: Store,
  round: readonly ReceivedEvent[],
  effect: Effect<SpannerTransaction>,
): Promise<Outcomes> {
  const { database, consumer } = store;
  try {
    return await database.transaction((tx) => admitEvents(tx, { consumer, round, effect }));
  } catch (error) {
    if (!isToBlameOnData(error)) throw error;
    if (round.length > 1) return receiveOneByOne(round, (one) => receiveRound(store, one, effect));
    return [[round[0]!, { outcome: 'unstorable', detail: String(error) }]];
  }
}

/**
 * Whether no redelivery would make Spanner take it. A statement of the effect that is not
 * understood is the consumer's mistake, which a later version mends.
 */
function isToBlameOnData(error: unknown): boolean {
  if (error instanceof WriteRefusedError) return true;
  return isRefusal(error) && statusOf(error) !== status.invalidArgument;
}
