import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { deriveId } from '@triplock/payments';
import {
  createTestSubscription,
  createTestTopic,
  eventually,
  freePort,
  startService,
  type Ran,
} from '@triplock/testing';

/**
 * How many published events the outbox holds; of some payments one more is parked, and two stand
 * behind that.
 */
export type OutboxSize = { eventsCount: number; parkedEvery: number };

/** An event in it. */
export type OutboxRow = {
  event: string;
  payment: string;
  bucket: number;
  sequence: number;
  state: OutboxState;
};
type OutboxState = 'published' | 'parked' | 'pending';

/** A ledger whose outbox can be filled and looked into. */
export type FilledOutbox = {
  /** Where the operator and the dispatcher find it. */
  settings: Readonly<Record<string, string>>;
  /** Rows of one commit. */
  add(rows: readonly OutboxRow[]): Promise<unknown>;
  count(state: OutboxState): Promise<number>;
};

/** What republishing promises of an outbox in any store. */
export function republishingConformance(
  name: string,
  suite: {
    size: OutboxSize;
    skip?: string | false;
    open(context: TestContext): Promise<FilledOutbox>;
    runOperator(words: readonly string[], settings: Readonly<Record<string, string>>): Promise<Ran>;
  },
): void {
  const { size, skip = false, open, runOperator } = suite;
  test(
    `republishing from ${name} waits for no event that a parked one holds up, names them, and its redrive frees them`,
    { skip },
    async (context) => {
      const store = await open(context);
      const parked = await fill(store, size);
      const { eventsCount } = size;
      const [events, accepted, deadLetters, told] = await Promise.all([
        createTestSubscription(context),
        createTestTopic(context),
        createTestTopic(context),
        createTestTopic(context),
      ]);
      const settings = {
        ...store.settings,
        PUBSUB_PROJECT_ID: events.projectId,
        PUBSUB_EMULATOR_HOST: events.emulatorHost,
        EVENTS_TOPIC: events.topic,
        KAFKA_BROKERS: accepted.brokers.join(','),
        ACCEPTED_TOPIC: accepted.topic,
        DEAD_LETTER_TOPIC: deadLetters.topic,
        TOLD_TOPIC: told.topic,
      };
      const dispatcher = startService(
        context,
        new URL('../../../services/outbox-dispatcher/main.ts', import.meta.url),
        { ...settings, TRIPLOCK_MODE: 'test', ADMIN_PORT: String(await freePort()) },
      );
      await dispatcher.ready();

      const since = new Date(Date.now() - 86_400_000).toISOString();
      const began = performance.now();
      const run = await runOperator(
        ['republish', '--since', since, '--by', 'ada', '--json'],
        settings,
      );
      const seconds = (performance.now() - began) / 1_000;
      assert.equal(run.code, 0, run.stderr);
      const { republished, held } = JSON.parse(run.stdout) as { republished: number; held: number };
      context.diagnostic(`${run.stderr}${republished} events in ${seconds.toFixed(1)} s`);
      assert.deepEqual(
        { republished, held },
        { republished: eventsCount + parked.length, held: 3 * parked.length },
      );
      assert.deepEqual(
        [await store.count('published'), await store.count('pending'), await store.count('parked')],
        [eventsCount, 2 * parked.length, parked.length],
      );

      // What is held makes nobody look for a dispatcher, and is seen for as long as it is.
      const shown = Object.entries({ held_rows: held, pending_rows: 0, oldest_seconds: 0 }).map(
        ([name, value]) => new RegExp(`triplock_outbox_${name}\\{[^}]*\\} ${value}\n`),
      );
      await eventually(
        async () => {
          const text = await (await dispatcher.admin('/metrics')).text();
          return shown.every((figure) => figure.test(text));
        },
        { withinMs: 30_000, what: 'the metrics' },
      );

      const redrive = ['dead-letters', 'redrive', `outbox:${parked[0]!}`, '--by', 'ada'];
      const redriven = await runOperator([...redrive, '--why', 'mended'], settings);
      assert.equal(redriven.code, 0, redriven.stderr);
      await eventually(async () => (await store.count('published')) === eventsCount + 3, {
        withinMs: 30_000,
        what: 'the redriven event and those behind it',
      });
    },
  );
}

/** Fills the outbox, and returns the parked events. */
async function fill(
  { add }: FilledOutbox,
  { eventsCount, parkedEvery }: OutboxSize,
): Promise<string[]> {
  const event = (n: number, sequence: number, state: OutboxState): OutboxRow => {
    const payment = deriveId('payment', 'acme', `republished-${n}`);
    const id = deriveId('event', payment, String(sequence));
    return { event: id, payment, bucket: n % 64, sequence, state };
  };
  const every = Array.from({ length: eventsCount }, (_, n) => n);
  const some = every.filter((n) => n % parkedEvery === 0);
  const parked = some.map((n) => event(n, 2, 'parked'));
  // One commit after the other, because that is their order.
  for (const rows of [
    every.map((n) => event(n, 1, 'published')),
    parked,
    some.map((n) => event(n, 3, 'pending')),
    // Published when the one before was not parked yet; given out again it stands behind it.
    some.map((n) => event(n, 4, 'published')),
  ]) {
    for (let from = 0; from < rows.length; from += 250) await add(rows.slice(from, from + 250));
  }
  return parked.map((row) => row.event);
}
