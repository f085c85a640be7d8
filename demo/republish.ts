import { setTimeout as delay } from 'node:timers/promises';
import { runCommand } from '@triplock/launcher';
import { loadSql, openForCommand, type Database } from '@triplock/postgres';
import { openLedgerOf } from './ledger-of.ts';
import { republishEvents } from './republish/republish-events.ts';
import { parseSince } from './republish/since.ts';
import { withParts } from './needed-parts.ts';
import { findSystem, type System } from './system.ts';
import { openTerminal, type Terminal } from './terminal/terminal.ts';
import { count } from './terminal/words.ts';
import { whoActs } from './who-acts.ts';

const recordRepublish = loadSql(import.meta.url, 'republish/sql/record-republish.sql');
const countWaiting = loadSql(import.meta.url, 'republish/sql/count-waiting.sql');

const help = `
npm run republish -- --since T [options]

Publishes settled events again from the outbox, under the same ids and in order per payment: for a
new consumer, or a broker that lost its topic. A consumer that has them knows their ids. Dispatchers
do the publishing, batch by batch; Ctrl-C ends it between two. A new consumer has to know of what has
left the outbox before: docs/stores.md. Exit code 2 when the system is not up.

  --since T    events published since then: 2026-11-20T08:00:00Z, or a day
  --why TEXT   why they are published again
  --by NAME    who asks for it (the user of this machine)
  --home DIR   the instance (.triplock)
  --json       prints { since, until, republished, leftBefore }
  --help
`;

const lookAgainMs = 200;

await runCommand({
  name: 'republish',
  help,
  options: {
    since: { type: 'string' },
    why: { type: 'string' },
    by: { type: 'string' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  run: async ({ values, interrupted }) => {
    const until = new Date();
    const since = parseSince(values.since, until);
    const by = whoActs(values.by);
    const terminal = openTerminal({ json: values.json ?? false });
    const system = await findSystem(values.home, { terminal, signal: interrupted() });
    const database = openForCommand({
      url: system.endpoints.postgres,
      applicationName: 'republish',
      connectionsMax: 2,
    });
    try {
      const act = [since.toISOString(), by, values.why ?? null];
      // Without the broker nothing that is given to the dispatchers would ever leave them.
      const [horizon] = await withParts(system, ['postgres', 'pubsub'], () =>
        database.query<{ leftBefore: Date | null }>(recordRepublish, act),
      );
      const leftBefore = horizon!.leftBefore;
      if (leftBefore !== null && leftBefore > since) {
        terminal.line(`what was published before ${leftBefore.toISOString()} has left the outbox`);
      }
      const republished = await republish(database, { system, terminal, since, until });
      terminal.line(`${count(republished, 'event')} published again`);
      terminal.result({ since, until, republished, leftBefore });
    } finally {
      terminal.clear();
      await database.close();
      await system.close();
    }
  },
});

async function republish(
  database: Database,
  asked: { system: System; terminal: Terminal; since: Date; until: Date },
): Promise<number> {
  const { system, terminal, ...range } = asked;
  const { store, outbox } = await openLedgerOf(system, () => database);
  const countHere = async () => {
    const [row] = await database.query<{ waiting: number }>(countWaiting, [range.until]);
    return row!.waiting;
  };
  const countThere = async () => (await outbox.pending()).rows;
  const republished = republishEvents(
    {
      outbox,
      waiting: store === 'postgres' ? countHere : countThere,
      rest: () => delay(lookAgainMs, undefined, { signal: system.signal }),
      progress: ({ republished, waiting }) =>
        terminal.progress(`${republished} given to the dispatchers, ${waiting} not yet published`),
    },
    range,
  );
  return republished.finally(() => (store === 'postgres' ? undefined : outbox.close()));
}
