import {
  databaseErrorKind,
  loadSql,
  loadStatements,
  type Database,
  type Queryable,
} from '@triplock/postgres';
import type {
  EarlyEvents,
  Effect,
  Inbox,
  ReceivedEvent,
  ReceiveOutcome,
  RefusedMessages,
} from '../inbox.ts';

const admitEvents = loadSql(import.meta.url, 'admit-events.sql');
const sql = loadStatements(import.meta.url, 'inbox.sql', [
  'recordAlteredCopies',
  'readCursors',
  'keepEarly',
  'readNextEarly',
  'findEarlyKeys',
  'forgetApplied',
  'countEarly',
  'reapInbox',
  'recordRefusedMessage',
]);

type Store = { database: Database; consumer: string };

/** Of one payment: more than it has refunds, as a rule. */
const earlyOfKeyMax = 100;
/** Some 20 MB. What is lacking then is no event but a subscription's past. */
const earlyMax = 10_000;
/** Ordering keys that one pass follows up. */
const keysMax = 100;

/**
 * A consumer's inbox in the schema that the database's role works in. `consumer` is part of every
 * key, so two consumers of one schema do not see each other.
 */
export function openInbox(database: Database, consumer: string): Inbox {
  const store = { database, consumer };
  return {
    receive: (events, effect) => receive(store, events, effect as Effect),
    async followUp(effect) {
      const parameters = [consumer, keysMax];
      const keys = await database.query<{ ordering_key: string }>(sql.findEarlyKeys, parameters);
      await applyNext(store, new Set(keys.map((each) => each.ordering_key)), effect as Effect);
      await database.query(sql.forgetApplied, [consumer]);
      const [early] = await database.query<EarlyEvents>(sql.countEarly, [consumer]);
      return early!;
    },
    async reap({ keepMs, rowsMax }) {
      const parameters = [consumer, keepMs, rowsMax];
      const [row] = await database.query<{ reaped: number }>(sql.reapInbox, parameters);
      return row!.reaped;
    },
  };
}

/**
 * Receives events by rounds in which each ordering key has one at most: what one statement admits
 * has no order.
 */
async function receive(
  store: Store,
  events: readonly ReceivedEvent[],
  effect: Effect,
): Promise<ReceiveOutcome[]> {
  // The same object given twice is two copies, each with an outcome of its own.
  const copies = events.map((each) => ({ ...each }));
  const outcomes = new Map<ReceivedEvent, ReceiveOutcome>();
  for (const round of roundsOf(copies)) {
    for (const [each, outcome] of await receiveRound(store, round, effect)) {
      outcomes.set(each, outcome);
    }
  }
  const inOrder = copies.filter(({ sequence }) => sequence !== undefined);
  await applyNext(store, new Set(inOrder.map((each) => each.orderingKey)), effect);
  return copies.map((each) => outcomes.get(each)!);
}

type EarlyRow = Required<Pick<ReceivedEvent, 'id' | 'payloadHash' | 'orderingKey' | 'sequence'>> & {
  event: Pick<ReceivedEvent, 'type' | 'payload' | 'traceparent'>;
};

/**
 * Applies the kept events that come next in these ordering keys, and then those after them.
 *
 * Who keeps an event looks here after its commit, and so does who moves a cursor after that one's:
 * of two who do so at once, one sees what the other wrote. A crash before the look leaves a message
 * that was not acknowledged; its copy looks here again, and so does every pass of `followUp`.
 */
async function applyNext(store: Store, keys: ReadonlySet<string>, effect: Effect): Promise<void> {
  const { database, consumer } = store;
  let left = [...keys];
  while (left.length > 0) {
    const rows = await database.query<EarlyRow>(sql.readNextEarly, [consumer, left]);
    const next = rows.map(({ event, ...row }): ReceivedEvent => ({ ...row, ...event }));
    if (next.length === 0) return;
    const outcomes = await receiveRound(store, next, effect);
    // What is applied by somebody else, they follow up; what cannot be applied stays.
    const applied = outcomes.filter(([, { outcome }]) => outcome === 'applied');
    left = applied.map(([event]) => event.orderingKey);
  }
}

/**
 * Parts events so that no round has two of one ordering key: the first round has each key's lowest
 * sequence, the next one the second lowest. A copy of an event is in a later round than the event.
 */
function roundsOf(events: readonly ReceivedEvent[]): ReceivedEvent[][] {
  const rounds: ReceivedEvent[][] = [];
  for (const ofKey of Map.groupBy(events, (event) => event.orderingKey).values()) {
    // Events without a sequence wait for nobody.
    ofKey.sort((one, other) => (one.sequence ?? 0) - (other.sequence ?? 0));
    for (const [nth, event] of ofKey.entries()) (rounds[nth] ??= []).push(event);
  }
  return rounds;
}

type Outcomes = readonly (readonly [ReceivedEvent, ReceiveOutcome])[];

/** Leaves the transaction so that it rolls back: a cursor moved for an event whose id was known. */
class KnownInOrder extends Error {
  override name = 'KnownInOrder';
}

/** Receives one round. What fails together is tried again one by one. */
async function receiveRound(
  store: Store,
  round: readonly ReceivedEvent[],
  effect: Effect,
): Promise<Outcomes> {
  try {
    const applied = await applyThoseInOrder(store, round, effect);
    const others = round.filter((each) => !applied.has(each));
    return [
      ...[...applied].map((each) => [each, { outcome: 'applied' }] as const),
      ...(await whyNotApplied(store, others)),
    ];
  } catch (error) {
    const known = error instanceof KnownInOrder;
    if (!known && databaseErrorKind(error) !== 'data') throw error;
    const [only] = round;
    if (round.length > 1) {
      const outcomes = [];
      for (const each of round) outcomes.push(...(await receiveRound(store, [each], effect)));
      return outcomes;
    }
    if (known) return whyNotApplied(store, [only!]);
    return [[only!, { outcome: 'unstorable', detail: String(error) }]];
  }
}

type Admission = { at: number; remembered: boolean };

/**
 * The guard's step and the effect in one transaction. A crash before its commit leaves neither
 * cursor, inbox row nor effect, and the broker redelivers; after it the copy is known.
 */
async function applyThoseInOrder(
  { database, consumer }: Store,
  round: readonly ReceivedEvent[],
  effect: Effect,
): Promise<ReadonlySet<ReceivedEvent>> {
  const columns = [
    round.map((event) => event.id),
    round.map((event) => event.payloadHash),
    round.map((event) => event.orderingKey),
    round.map((event) => event.sequence ?? null),
  ];
  let whenEnded = undefined as Awaited<ReturnType<Effect>>;
  const work = async (tx: Queryable) => {
    const rows = await tx.query<Admission>(admitEvents, [consumer, ...columns]);
    const inOrder = rows.map(({ at, remembered }) => ({ event: round[at - 1]!, remembered }));
    if (inOrder.some(({ event, remembered }) => !remembered && event.sequence !== undefined)) {
      throw new KnownInOrder();
    }
    const applied = inOrder.filter(({ remembered }) => remembered).map(({ event }) => event);
    if (applied.length > 0) whenEnded = await effect(tx, applied);
    return applied;
  };
  const applied = await database.transaction(work).catch((error: unknown) => {
    whenEnded?.('not-known');
    throw error;
  });
  whenEnded?.('committed');
  return new Set(applied);
}

/**
 * Why events were not admitted, each of another ordering key: one is known, with these bytes or
 * others, or an earlier one is still to come. One that took effect so long ago that its inbox row
 * was removed is known by the cursor. When the cursor has moved up to the event in the meantime it
 * still counts as early, and is applied right after it was kept.
 *
 * By two statements for all, because a replay brings nothing but copies; what is kept early is
 * rare.
 */
async function whyNotApplied(store: Store, events: readonly ReceivedEvent[]): Promise<Outcomes> {
  if (events.length === 0) return [];
  const { database, consumer } = store;
  const copies = [events.map(({ id }) => id), events.map(({ payloadHash }) => payloadHash)];
  const altered = await database.query<{ at: number; known_hash: string }>(
    sql.recordAlteredCopies,
    [consumer, ...copies],
  );
  const keys = events.map(({ orderingKey }) => orderingKey);
  const cursors = await database.query<{ at: number; last_sequence: number }>(sql.readCursors, [
    consumer,
    keys,
  ]);
  const hashes = new Map(altered.map(({ at, known_hash }) => [at - 1, known_hash]));
  const lasts = new Map(cursors.map(({ at, last_sequence }) => [at - 1, last_sequence]));
  const outcomeOf = (
    event: ReceivedEvent,
    at: number,
  ): ReceiveOutcome | Promise<ReceiveOutcome> => {
    const knownHash = hashes.get(at);
    if (knownHash !== undefined) return { outcome: 'altered', knownHash };
    const last = lasts.get(at) ?? 0;
    const { sequence } = event;
    // Without a sequence it is admitted at any time, unless it is known.
    if (sequence === undefined || sequence <= last) return { outcome: 'duplicate' };
    return keepEarly(store, { ...event, sequence }, last + 1);
  };
  return Promise.all(events.map(async (event, at) => [event, await outcomeOf(event, at)] as const));
}

async function keepEarly(
  { database, consumer }: Store,
  { id, payloadHash, orderingKey, sequence, type, payload, traceparent }: Numbered,
  expected: number,
): Promise<ReceiveOutcome> {
  const event = JSON.stringify({ type, payload, traceparent });
  const early = [consumer, id, payloadHash, orderingKey, sequence, event, earlyOfKeyMax, earlyMax];
  const [row] = await database.query<{ kept: boolean }>(sql.keepEarly, early);
  return { outcome: row!.kept ? 'early' : 'returned', expected };
}

type Numbered = ReceivedEvent & { sequence: number };

// The message itself is kept beside it.
const detailLengthMax = 500;

/** A consumer's refused messages, in the schema that the database's role works in. */
export function openRefusedMessages(database: Database, consumer: string): RefusedMessages {
  return {
    async record({ id, data, attributes }, { reason, detail }) {
      // PostgreSQL's text refuses a NUL, and a message that cannot be stored would come for ever.
      const storable = detail.slice(0, detailLengthMax).replaceAll('\0', '\\0');
      const parameters = [consumer, id, reason, storable, data, JSON.stringify(attributes)];
      const rows = await database.query(sql.recordRefusedMessage, parameters);
      return rows.length > 0 ? 'recorded' : 'known';
    },
  };
}
