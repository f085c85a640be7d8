import { setTimeout as delay } from 'node:timers/promises';
import type { Outbox } from '@triplock/ledger';
import { ledgerStoreWords } from '@triplock/ledgers';
import { type Database } from '@triplock/postgres';
import { openPublisher } from '@triplock/transport';
import {
  isMissing,
  runCommand,
  timeOf,
  UsageError,
  wordsOf,
  count,
  openTerminal,
} from '@triplock/command';
import {
  outboxSettings,
  required,
  type Config,
  operatorFor,
  withDatabase,
  withOutbox,
  type Caller,
  type Needs,
  type Operator,
  recordRepublish,
  whoActs,
} from '@triplock/inspect';

const help = `
npm run republish -- --since T [options]

Publishes settled events again from the outbox, under the same ids and in order per payment: for a
new consumer, or a broker that lost its topic. A consumer that has them knows their ids. Dispatchers
do the publishing, batch by batch; Ctrl-C ends it between two. What stands behind a parked event is
counted and not waited for. A new consumer has to know of what has left the outbox before:
docs/stores.md. Exit code 2 when the system is not up.

  --since T    events published since then: 2026-11-20T08:00:00Z, or a day
  --why TEXT   why they are published again
  --by NAME    who asks for it (the user of this machine)
  --home DIR   the instance on this machine (.triplock); elsewhere the settings say which system
  --json       prints { since, until, republished, held, leftBefore }
  --help

DATABASE_URL       the database, as its owner
PUBSUB_PROJECT_ID  whose events topic the dispatchers publish to; PUBSUB_EMULATOR_HOST for an emulator
LEDGER_STORE       where the outbox is: ${ledgerStoreWords}
`;

const lookAgainMs = 200;

/** `republish`: publishes settled events again from the outbox. */
export function republish(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'republish',
      help,
      options: {
        since: { type: 'string' },
        why: { type: 'string' },
        by: { type: 'string' },
        json: { type: 'boolean' },
      },
      run: async ({ values, interrupted }) => {
        const until = new Date();
        const since = parseSince(values.since, until);
        const actor = { by: whoActs(values.by), why: values.why ?? null };
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        const settings = outboxSettings(operator.config);
        const needs: Needs = { name: 'republish', parts: ['pubsub'], settings };
        await withDatabase(operator, needs, async (database) => {
          // Without the broker nothing that is given to the dispatchers would ever leave them.
          await requireTopic(operator);
          const leftBefore = await recordRepublish(database, since, actor);
          if (leftBefore !== null && leftBefore > since) {
            terminal.line(
              `what was published before ${leftBefore.toISOString()} has left the outbox`,
            );
          }
          const { republished, held } = await republishRange(operator, database, { since, until });
          terminal.line(`${count(republished, 'event')} published again`);
          if (held > 0) terminal.line(describeHeld(held));
          terminal.result({ since, until, republished, held, leftBefore });
        });
      },
    },
    caller.args,
  );
}

function describeHeld(held: number): string {
  const events = held === 1 ? '1 event is held' : `${held} events are held`;
  return `${events}, parked or behind a parked one of their payment: \`npm run dead-letters -- list\` names it, and redriving it publishes them`;
}

async function requireTopic({ config }: Operator): Promise<void> {
  const { PUBSUB_PROJECT_ID: projectId } = required(config, 'PUBSUB_PROJECT_ID');
  const { EVENTS_TOPIC: topic, PUBSUB_EMULATOR_HOST: emulatorHost } = config;
  const publisher = openPublisher({ projectId, emulatorHost, topic });
  try {
    await publisher.ping();
  } catch (error) {
    throw new UsageError(`Pub/Sub has no topic ${topic} now: ${wordsOf(error)}`, { cause: error });
  } finally {
    await publisher.close();
  }
}

/** Events that were published in a stretch of time. */
type Range = { since: Date; until: Date };

function republishRange(
  { config, terminal, signal }: Operator,
  database: Database,
  range: Range,
): Promise<Republished> {
  return withOutbox(config, database, (outbox) =>
    republishEvents(
      {
        outbox,
        rest: () => delay(lookAgainMs, undefined, { signal }),
        progress: ({ republished, rows }) =>
          terminal.progress(`${republished} given to the dispatchers, ${rows} not yet published`),
      },
      range,
    ),
  );
}

/** What republishing works with. */
export type Republishing = {
  outbox: Pick<Outbox, 'republish' | 'pending'>;
  /** Resolves when it is time to look again; rejects when the command is to end. */
  rest: () => Promise<unknown>;
  progress: (state: { republished: number; rows: number }) => void;
};

/** How many events were given to the dispatchers, and how many are held at the end. */
export type Republished = { republished: number; held: number };

/**
 * Small enough that an event of now waits a second or so behind it: dispatchers take the oldest of
 * a bucket first.
 */
const batchRowsMax = 1_000;

/**
 * Gives events back to the dispatchers batch by batch, each after the one before was published, and
 * resolves when all are. What no dispatcher can take is not waited for: it is held behind a parked
 * event until a person redrives that, which may be never. Neither is what is younger than the
 * range,
 * of which there is always more. Interrupted, it leaves nothing half done: what waits is published,
 * the rest was not touched.
 */
export async function republishEvents(
  { outbox, rest, progress }: Republishing,
  range: Range,
): Promise<Republished> {
  let republished = 0;
  for (;;) {
    const given = await outbox.republish({ ...range, rowsMax: batchRowsMax });
    republished += given;
    let backlog = await outbox.pending(range.until);
    for (; backlog.rows > 0; backlog = await outbox.pending(range.until)) {
      progress({ republished, rows: backlog.rows });
      await rest();
    }
    if (given === 0) return { republished, held: backlog.held };
  }
}

/** Lets all events wait again that were published in a stretch of time, without waiting for it. */
export async function republishAtOnce(
  config: Config,
  database: Database,
  range: Range,
): Promise<void> {
  await withOutbox(config, database, async (outbox) => {
    while ((await outbox.republish({ ...range, rowsMax: batchRowsMax })) > 0);
  });
}

/**
 * When to begin.
 *
 * @throws UsageError when it is no time, or lies ahead.
 */
export function parseSince(text: string | undefined, now: Date): Date {
  const time = timeOf(text, { option: 'since' });
  if (time === undefined)
    throw isMissing('--since', 'a time such as 2026-11-20T08:00:00Z, or a day');
  if (time >= now) throw new UsageError(`--since lies ahead: it is ${now.toISOString()}`);
  return time;
}
