import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test, type TestContext } from 'node:test';
import { deriveEventId, deriveId, type TxnId } from '@triplock/payments';
import fc from 'fast-check';
import type { Effect, Inbox, ReceivedEvent, ReceiveOutcome } from './inbox.ts';

/** An inbox to try, and a way to see what is committed in its store. */
export type InboxUnderTest<Tx> = {
  inbox: Inbox<Tx>;
  /** The same store seen by another consumer. */
  other: Inbox<Tx>;
  /** An effect that writes a row, and those rows in the order in which they were written. */
  effect: Effect<unknown, Tx>;
  effects(): Promise<{ eventId: string; sequence: number | null }[]>;
  /** Forgets the inbox row of an event as the reaper does, and keeps the cursor. */
  reap(eventId: string): Promise<void>;
};

/** What every inbox promises, whatever it is stored in. */
export function inboxConformance<Tx>(name: string, open: Open<Tx>): void {
  suite(name, () => {
    duplicates(open);
    alteredCopies(open);
    order(open);
    batches(open);
    outages(open);
  });
}

type Open<Tx> = (context: TestContext) => Promise<InboxUnderTest<Tx>>;

function duplicates<Tx>(open: Open<Tx>): void {
  test('an event delivered twice has one effect', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const received = anEvent();
    assert.deepEqual(await receiveOne(inbox, received, effect), { outcome: 'applied' });
    assert.deepEqual(await receiveOne(inbox, received, effect), { outcome: 'duplicate' });
    assert.equal((await effects()).length, 1);
  });

  test('ten receivers racing on one event have one effect', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const received = anEvent();
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, () => receiveOne(inbox, received, effect)),
    );
    assert.deepEqual(countOf(outcomes), { applied: 1, duplicate: 9 });
    assert.equal((await effects()).length, 1);
  });

  test('two consumers each have their own effect of one event', async (context) => {
    const { inbox, other, effect, effects } = await open(context);
    const received = anEvent();
    assert.equal((await receiveOne(inbox, received, effect)).outcome, 'applied');
    assert.equal((await receiveOne(other, received, effect)).outcome, 'applied');
    assert.equal((await effects()).length, 2);
  });

  test('a copy that comes after its inbox row was removed is known by the cursor', async (context) => {
    const { inbox, effect, effects, reap } = await open(context);
    const received = anEvent();
    await receiveOne(inbox, received, effect);
    await reap(received.id);
    assert.deepEqual(await receiveOne(inbox, received, effect), { outcome: 'duplicate' });
    assert.equal((await effects()).length, 1);
  });
}

function alteredCopies<Tx>(open: Open<Tx>): void {
  test('a copy with other bytes is recognized and not applied', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const received = anEvent();
    await receiveOne(inbox, received, effect);
    const altered = { ...received, payloadHash: hashOf('other bytes') };
    assert.deepEqual(await receiveOne(inbox, altered, effect), {
      outcome: 'altered',
      knownHash: received.payloadHash,
    });
    assert.equal((await effects()).length, 1);
    assert.deepEqual(await receiveOne(inbox, received, effect), { outcome: 'duplicate' });
  });

  test('a known event id under the next sequence does not move the cursor', async (context) => {
    const { inbox, effect } = await open(context);
    const orderingKey = aKey();
    const first = anEvent({ orderingKey, sequence: 1 });
    const second = anEvent({ orderingKey, sequence: 2 });
    await receiveOne(inbox, first, effect);
    const posing = { ...first, sequence: 2, payloadHash: hashOf('posing') };
    assert.equal((await receiveOne(inbox, posing, effect)).outcome, 'altered');
    assert.equal((await receiveOne(inbox, second, effect)).outcome, 'applied');
  });
}

function order<Tx>(open: Open<Tx>): void {
  test('events that come early are kept, and follow the missing one once and in order without being sent again', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const [first, second, third, fourth] = eventsOf(4);
    for (const early of [third!, fourth!, third!, second!]) {
      const expected = { outcome: 'early', expected: 1 };
      assert.deepEqual(await receiveOne(inbox, early, effect), expected);
    }
    assert.deepEqual(await effects(), []);
    assert.equal((await inbox.followUp(effect)).events, 3);
    assert.deepEqual(await receiveOne(inbox, first!, effect), { outcome: 'applied' });
    assert.deepEqual(await sequencesOf(effects), [1, 2, 3, 4]);
    assert.deepEqual(await receiveOne(inbox, third!, effect), { outcome: 'duplicate' });
    assert.deepEqual(await inbox.followUp(effect), { events: 0, oldestSeconds: 0 });
    assert.deepEqual(await sequencesOf(effects), [1, 2, 3, 4]);
  });

  test('an event without a sequence waits for nobody', async (context) => {
    const { inbox, effect } = await open(context);
    const orderingKey = aKey();
    const conflict = anEvent({ orderingKey, sequence: undefined });
    assert.deepEqual(await receiveOne(inbox, conflict, effect), { outcome: 'applied' });
    assert.deepEqual(await receiveOne(inbox, conflict, effect), { outcome: 'duplicate' });
    const first = anEvent({ orderingKey, sequence: 1 });
    assert.deepEqual(await receiveOne(inbox, first, effect), { outcome: 'applied' });
  });

  test('any delivery order with duplicates applies 1 to n once and in order', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const deliveries = fc
      .integer({ min: 1, max: 5 })
      .chain((last) => fc.array(fc.integer({ min: 1, max: last }), { maxLength: 12 }));
    const property = fc.asyncProperty(
      deliveries,
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 1, max: 4 }),
      async (some, width, together) => {
        const orderingKey = aKey();
        const last = Math.max(0, ...some);
        const all = Array.from({ length: last }, (_, index) =>
          anEvent({ orderingKey, sequence: index + 1 }),
        );
        const groups = Array.from({ length: Math.ceil(some.length / together) }, (_, n) =>
          some.slice(n * together, (n + 1) * together).map((sequence) => all[sequence - 1]!),
        );
        await deliverAtOnce(groups, width, (group) => inbox.receive(group, effect));
        // Those that were not among the deliveries come last, the others are here for good.
        for (const each of all.filter((_, n) => !some.includes(n + 1)).reverse()) {
          await receiveOne(inbox, each, effect);
        }
        const mine = (await effects()).filter(({ eventId }) =>
          all.some(({ id }) => id === eventId),
        );
        assert.deepEqual(
          mine.map(({ sequence }) => sequence),
          all.map((_, index) => index + 1),
        );
      },
    );
    await fc.assert(property, { numRuns: 40 });
  });
}

function batches<Tx>(open: Open<Tx>): void {
  test('of events that are received together each has its own outcome', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const orderingKey = aKey();
    const [known, fresh, conflict] = [anEvent(), anEvent(), anEvent({ sequence: undefined })];
    const [first, second] = [
      anEvent({ orderingKey, sequence: 1 }),
      anEvent({ orderingKey, sequence: 2 }),
    ];
    const early = anEvent({ sequence: 3 });
    const unstorable = anEvent({ sequence: 3_000_000_000 });
    await receiveOne(inbox, known, effect);
    const altered = { ...known, payloadHash: hashOf('other bytes') };
    const posing = { ...known, sequence: 2, payloadHash: hashOf('posing') };
    const batch = [known, fresh, second, early, first, altered, fresh, conflict, posing];
    const outcomes = await inbox.receive([...batch, unstorable, conflict], effect);
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      [
        ...['duplicate', 'applied', 'applied', 'early', 'applied', 'altered', 'duplicate'],
        ...['applied', 'altered', 'unstorable', 'duplicate'],
      ],
    );
    assert.deepEqual(
      (await effects()).map(({ eventId }) => eventId).sort(),
      [known, fresh, first, second, conflict].map(({ id }) => id).sort(),
    );
    assert.deepEqual(await inbox.receive([], effect), []);
  });

  test('receivers that race on the same batch, each in its own order, apply it once', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const batch = Array.from({ length: 30 }, () => anEvent());
    await inbox.receive(batch, effect);
    const next = batch.map(({ orderingKey }) => anEvent({ orderingKey, sequence: 2 }));
    const fresh = Array.from({ length: 30 }, () => anEvent());
    const outcomes = await Promise.all(
      Array.from({ length: 6 }, (_, n) => {
        const all = [...next, ...fresh];
        const turned = [...all.slice(n * 10), ...all.slice(0, n * 10)];
        return inbox.receive(n % 2 === 0 ? turned : turned.reverse(), effect);
      }),
    );
    assert.deepEqual(countOf(outcomes.flat()), { applied: 60, duplicate: 300 });
    assert.equal((await effects()).length, 90);
  });

  test('an effect that throws leaves nothing of its batch', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const batch = [anEvent(), anEvent()];
    const broken: Effect<unknown, Tx> = async (tx, events) => {
      await effect(tx, events);
      throw new Error('the consumer died');
    };
    await assert.rejects(inbox.receive(batch, broken), /the consumer died/);
    assert.deepEqual(await effects(), []);
    assert.deepEqual(countOf(await inbox.receive(batch, effect)), { applied: 2 });
  });
}

function outages<Tx>(open: Open<Tx>): void {
  test('an effect that throws leaves neither inbox row nor cursor', async (context) => {
    const { inbox, effect, effects } = await open(context);
    const received = anEvent();
    const broken: Effect<unknown, Tx> = async (tx, events) => {
      await effect(tx, events);
      throw new Error('the consumer died');
    };
    await assert.rejects(receiveOne(inbox, received, broken), /the consumer died/);
    assert.deepEqual(await effects(), []);
    assert.deepEqual(await receiveOne(inbox, received, effect), { outcome: 'applied' });
    assert.equal((await effects()).length, 1);
  });
}

/** The first events of a payment of their own. */
export function eventsOf(count: number): ReceivedEvent[] {
  const orderingKey = aKey();
  return Array.from({ length: count }, (_, n) => anEvent({ orderingKey, sequence: n + 1 }));
}

async function sequencesOf(effects: () => Promise<{ sequence: number | null }[]>) {
  return (await effects()).map(({ sequence }) => sequence);
}

/** Deliveries in the given order, `width` of them at work at any time. */
async function deliverAtOnce<Delivery>(
  deliveries: readonly Delivery[],
  width: number,
  deliver: (delivery: Delivery) => Promise<unknown>,
): Promise<void> {
  const queue = [...deliveries];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await deliver(next);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** An event of a new ordering key unless one is named; `sequence: undefined` waits for no other. */
export function anEvent(
  wish: { orderingKey?: string; sequence?: number | undefined } = {},
): ReceivedEvent {
  const orderingKey = wish.orderingKey ?? aKey();
  const sequence = 'sequence' in wish ? wish.sequence : 1;
  const id = deriveEventId(deriveId(orderingKey, String(sequence)) as TxnId, 'payment.succeeded');
  return {
    id,
    orderingKey,
    type: sequence === undefined ? 'payment.key_conflict' : 'payment.succeeded',
    ...(sequence === undefined ? {} : { sequence }),
    payload: {},
    payloadHash: hashOf(id),
  };
}

let keys = 0;
function aKey(): string {
  keys += 1;
  return deriveId('payment', 'acme', `inbox-${keys}`);
}

export async function receiveOne<Tx>(
  inbox: Inbox<Tx>,
  event: ReceivedEvent,
  effect: Effect<unknown, Tx>,
): Promise<ReceiveOutcome> {
  const [outcome] = await inbox.receive([event], effect);
  return outcome!;
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

function countOf(outcomes: readonly ReceiveOutcome[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { outcome } of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
}
