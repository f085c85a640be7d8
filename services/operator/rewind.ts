import { setTimeout as delay } from 'node:timers/promises';
import { offsetsText } from '@triplock/ledger';
import { isCopied, ledgerStoreWords } from '@triplock/ledgers';
import { loadStatements, type Database } from '@triplock/postgres';
import {
  openGroupMover,
  openLogBounds,
  openTopicOffsets,
  readEventArchive,
  skipBacklog,
  type BrokerConnection,
  type Offsets,
} from '@triplock/transport';
import {
  CommandError,
  runCommand,
  count,
  openTerminal,
  renderTable,
  type Terminal,
} from '@triplock/command';
import {
  outboxSettings,
  required,
  type Config,
  brokersOf,
  operatorFor,
  withDatabase,
  type Caller,
  type Needs,
  type Operator,
  recordRewind,
  whoActs,
  lackingEvents,
} from '@triplock/inspect';
import { openEventRestorer, type RestoredEvents } from './restore-events.ts';
import { parseSince, republishAtOnce } from './republish.ts';

const sql = loadStatements(import.meta.url, 'rewind.sql', [
  'readEvidence',
  'readSessions',
  'forgetWarmMarkers',
  'newestPublished',
  'noteRewind',
  'beginRewind',
  'endRewind',
]);

/** Longer than Kafka waits for a member that is gone (`defaultSessionMs` of the consumers). */
const leavingMs = 10_000;
const lookEveryMs = 500;

const help = `
npm run rewind -- --since T [options]

For a PostgreSQL that lost its newest commits: after a failover to an asynchronous standby, or a
restore. Kafka and Pub/Sub have passed what it lacks, so that nobody would read it again. This takes
them back; what is read twice conflicts with its row, which is success.

  workers        read the accepted topic again from T, or from before: from the first request that the
                 database shows to be lacking, so a T that is too late loses nothing that it shows
  auditors       the same, from how far the database has their evidence; dead letters from the first
  subscriptions  skip what they still hold: events of payments that are lost and will be settled anew
  outbox         events that were published, and that the database lacks, are there again as they
                 were, and what they told decides; published ones that some consumer lacks wait for a
                 dispatcher again
  claims         kept in this database are cold: the ledger answers for them

It prints what it would do, and with --yes does it. Stop every service first: Kafka moves a group
without members only, and a service that goes on remembers what is gone. Done twice it does no harm.
The whole way, with cards and partners: docs/operating.md#backup-and-restore. Exit code 1 when a
service is at work or Kafka no longer has a record, 2 when a part is not up.

  --since T  a time before the first commit that is lost: 2026-11-20T08:00:00Z, or a day
  --yes      does it
  --why TEXT why it is done
  --by NAME  who does it (the user of this machine)
  --home DIR the instance on this machine (.triplock); elsewhere the settings say which system
  --json     prints { since, done, groups, subscriptions, events, atWork,
             told?: { restored, contested, altered, unreadable } }
  --help

DATABASE_URL       the database, as its owner
KAFKA_BROKERS      some brokers
KAFKA_TLS, KAFKA_USERNAME, KAFKA_PASSWORD, KAFKA_SASL  how this logs in to them
PUBSUB_PROJECT_ID  whose subscriptions they are; PUBSUB_EMULATOR_HOST for an emulator
LEDGER_GROUP, AUDITOR_GROUP, EVENTS_SUBSCRIPTIONS, TOLD_TOPIC  where they are not called as usual
LEDGER_STORE       where the outbox is: ${ledgerStoreWords}
`;

/** `rewind`: has everything read again that the database lost. */
export function rewind(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'rewind',
      help,
      options: {
        since: { type: 'string' },
        yes: { type: 'boolean' },
        why: { type: 'string' },
        by: { type: 'string' },
        json: { type: 'boolean' },
      },
      run: async ({ values, interrupted }) => {
        const now = new Date();
        const since = parseSince(values.since, now);
        const actor = { by: whoActs(values.by), why: values.why ?? null };
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        await withSystem(operator, async (system) => {
          const plan = await (values.yes ? planAtRest : planRewind)(system, since);
          show(terminal, plan);
          let told: RestoredEvents | undefined;
          if (values.yes) {
            refuseAtWork(plan);
            // Before anything moves: what was begun is known also when this dies half way.
            await recordRewind(system.database, since, actor);
            told = await carryOut(system, plan);
            showRestored(terminal, told);
          }
          terminal.line(values.yes ? 'done' : 'nothing was changed: --yes does it');
          terminal.result({ ...plan, done: values.yes ?? false, ...(told && { told }) });
          if (plan.groups.some(({ gone }) => gone.length > 0)) process.exitCode = 1;
        });
      },
    },
    caller.args,
  );
}

/** What is rewound. */
type RewoundSystem = {
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  /** As its owner sees it. */
  database: Database;
  kafka: BrokerConnection;
  config: Config;
};

async function withSystem(
  operator: Operator,
  work: (system: RewoundSystem) => Promise<void>,
): Promise<void> {
  const { config, signal } = operator;
  const needs: Needs = {
    name: 'rewind',
    parts: ['kafka', 'pubsub'],
    settings: ['KAFKA_BROKERS', ...outboxSettings(config)],
    // It compares whole tables.
    statementTimeoutMs: 600_000,
  };
  await withDatabase(operator, needs, (database) =>
    work({ signal, database, kafka: brokersOf(operator), config }),
  );
}

/** Where one partition of a group is, and where it is to go on. */
type Move = { partition: number; from: bigint; to: bigint };

/** A group and what becomes of it. */
type GroupPlan = {
  group: string;
  topic: string;
  partitions: Move[];
  /** What it would have to read and Kafka no longer has. */
  gone: Move[];
};

/** All that a rewind would do. */
type RewindPlan = {
  since: Date;
  groups: GroupPlan[];
  subscriptions: readonly string[];
  /** Published events that some consumer lacks. */
  events: number;
  /** Services that have to stop before. */
  atWork: string[];
};

/** What the database shows of one partition of the accepted topic. */
type Evidence = {
  partition: number;
  /** The first offset that the auditor has not read. */
  read: bigint;
  /** The first one before that which the ledger lacks. */
  lacking: bigint | null;
};

/** Looks at everything and changes nothing. */
async function planRewind(system: RewoundSystem, since: Date): Promise<RewindPlan> {
  const { database, config } = system;
  const { ACCEPTED_TOPIC: accepted, DEAD_LETTER_TOPIC: deadLetter } = config;
  const evidence = await database.query<Evidence>(sql.readEvidence, [accepted]);
  const shown = new Map(evidence.map((each) => [each.partition, each]));
  const readUntil = (partition: number) => shown.get(partition)?.read;
  const heldUntil = (partition: number) => shown.get(partition)?.lacking ?? readUntil(partition);
  const { LEDGER_GROUP: workers, AUDITOR_GROUP: auditors } = config;
  const planOf = (group: string, topic: string, surelyUntil: Wanted['surelyUntil']) =>
    planGroup(system, { group, topic, since, surelyUntil });
  const plans = await Promise.all([
    planOf(workers, accepted, heldUntil),
    planOf(auditors, accepted, readUntil),
    // They are few, and nothing shows how far they were read.
    planOf(`${auditors}-dead-letters`, deadLetter, () => undefined),
  ]);
  const sessions = await database.query<{ name: string }>(sql.readSessions);
  const members = plans.flatMap((plan) => plan.members);
  return {
    since,
    groups: plans.map(({ group }) => group),
    subscriptions: config.EVENTS_SUBSCRIPTIONS,
    events: await lackingEvents(database, 'only-counted'),
    atWork: [...new Set([...members, ...sessions.map(({ name }) => name)])].sort(),
  };
}

type Wanted = Pick<GroupPlan, 'group' | 'topic'> & {
  since: Date;
  /** How far the database surely has a partition; nothing where it does not show. */
  surelyUntil: (partition: number) => bigint | undefined;
};

async function planGroup(
  { kafka }: RewoundSystem,
  { group, topic, since, surelyUntil }: Wanted,
): Promise<{ group: GroupPlan; members: string[] }> {
  const at = { ...kafka, topic, groupId: group };
  const [offsets, log, mover] = [openTopicOffsets(at), openLogBounds(at), openGroupMover(at)];
  try {
    const bounds = await log.bounds();
    const [committed, accepted, members] = await Promise.all([
      offsets.committed(),
      offsets.since(since),
      mover.members(),
    ]);
    const plan: GroupPlan = { group, topic, partitions: [], gone: [] };
    for (const [partition, { start, end }] of bounds) {
      const from = committed.get(partition) ?? start;
      // Without evidence all of it may be lacking, and nothing shows that more was there.
      const surely = surelyUntil(partition) ?? start;
      const then = accepted.get(partition) ?? end;
      const to = [from, then, surely].reduce((least, each) => (each < least ? each : least));
      if (to < start) plan.gone.push({ partition, from: surely, to: start });
      plan.partitions.push({ partition, from, to: to < start ? start : to });
    }
    return { group: plan, members };
  } finally {
    await Promise.all([offsets.close(), log.close(), mover.close()]);
  }
}

/**
 * The same, once nobody is at work, or as it is after a while: a service that was stopped leaves a
 * session for as long as its last statement runs, and one that was killed its place in a group.
 */
async function planAtRest(system: RewoundSystem, since: Date): Promise<RewindPlan> {
  let until: number | undefined;
  for (;;) {
    const plan = await planRewind(system, since);
    until ??= performance.now() + leavingMs;
    if (plan.atWork.length === 0 || performance.now() > until) return plan;
    await delay(lookEveryMs, undefined, { signal: system.signal });
  }
}

/** @throws CommandError that says what to do first. */
function refuseAtWork({ atWork }: RewindPlan): void {
  if (atWork.length === 0) return;
  throw new CommandError(
    `still at work: ${atWork.join(', ')}. Stop every service first (SIGTERM; ` +
      '`docker compose stop`; a scale to 0) and leave the parts running, then do this again',
  );
}

/**
 * Does what was planned; nobody is at work. Interrupted at any line and run again it does the rest:
 * what moved is where it should be. Events wait again before subscriptions skip what they hold, so
 * that nothing is skipped which no row brings back.
 */
async function carryOut(
  system: RewoundSystem,
  plan: RewindPlan,
): Promise<RestoredEvents | undefined> {
  const { database, kafka, config } = system;
  const told = isCopied(config.LEDGER_STORE) ? undefined : await restoreTold(system, plan.since);
  await moveGroups(kafka, plan.groups);
  if (!isCopied(config.LEDGER_STORE)) await lackingEvents(database, 'wait-again');
  // An outbox elsewhere lost nothing, and its copy here may not show which events are lacking.
  else await republishAtOnce(config, database, { since: plan.since, until: new Date() });
  const { PUBSUB_PROJECT_ID: projectId } = required(config, 'PUBSUB_PROJECT_ID');
  for (const subscription of plan.subscriptions) {
    await skipBacklog({ projectId, emulatorHost: config.PUBSUB_EMULATOR_HOST, subscription });
  }
  await database.query(sql.forgetWarmMarkers);
  // Last of all: workers go on from here.
  if (told !== undefined) await endRewind(system, plan, told);
  return told?.restored;
}

/** @throws CommandError when the database failed over meanwhile: part of it may be gone again. */
async function endRewind(
  { database, config }: RewoundSystem,
  { groups }: RewindPlan,
  { server, until }: Told,
): Promise<void> {
  const { partitions } = groups.find(({ group }) => group === config.LEDGER_GROUP)!;
  const posted = new Map(partitions.map(({ partition, to }) => [partition, to]));
  const words = [server, offsetsText(until), offsetsText(posted)];
  const noted = await database.query(sql.endRewind, words);
  if (noted.length > 0) return;
  throw new CommandError(
    'PostgreSQL failed over or was started again meanwhile, and may lack what was brought back: ' +
      'do this again',
  );
}

/** All at once: each is joined and left again, which takes some seconds of waiting. */
async function moveGroups(kafka: BrokerConnection, groups: readonly GroupPlan[]): Promise<void> {
  const moves = groups.map(async ({ group, topic, partitions }) => {
    const mover = openGroupMover({ ...kafka, topic, groupId: group });
    const back = partitions.filter(({ from, to }) => to < from);
    try {
      await mover.moveTo(new Map(back.map(({ partition, to }) => [partition, to])));
    } finally {
      await mover.close();
    }
  });
  // Where one fails the others come to their end too, before anybody is told.
  const ends = await Promise.allSettled(moves);
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** What was told and is back on this server, and the archive's next offsets as of then. */
type Told = { restored: RestoredEvents; server: string; until: Offsets };

/** Clocks of PostgreSQL and of Kafka's brokers differ by less. */
const clocksDifferMs = 600_000;

/**
 * Puts back what was told and the database lacks, all of it or nothing. An event that it lacks was
 * made after every one that it knows as published, and archived after that.
 */
async function restoreTold({ database, kafka, config }: RewoundSystem, since: Date): Promise<Told> {
  type Newest = { publishedAt: Date | null };
  const [newest] = await database.query<Newest>(sql.newestPublished);
  const known = Math.min(+since, +(newest?.publishedAt ?? since));
  const from = new Date(known - clocksDifferMs);
  const [{ server }] = (await database.query(sql.beginRewind)) as [{ server: string }];
  return database.transaction(async (tx) => {
    await tx.query(sql.noteRewind, [since]);
    const restorer = openEventRestorer(tx);
    const archive = { ...kafka, topic: config.TOLD_TOPIC, since: from };
    const { end: until } = await readEventArchive(archive, (texts) => restorer.take(texts));
    const restored = await restorer.end();
    // What was empty until now, and is asked of each transaction, was planned as such.
    await tx.query('ANALYZE ledger.told');
    return { restored, server, until };
  });
}

function showRestored(terminal: Terminal, restored: RestoredEvents | undefined): void {
  if (restored === undefined) return;
  const { restored: events, contested, altered, unreadable } = restored;
  terminal.line(`${count(events, 'event')} that had been told ${events === 1 ? 'is' : 'are'} back`);
  if (unreadable > 0) terminal.line(`  ${count(unreadable, 'text')} of the archive are no event`);
  if (contested.length > 0) {
    terminal.line(`  and not these, whose number another event has: ${contested.join(', ')}`);
  }
  if (altered.length > 0) {
    terminal.line(`  decided anew before this, in other words or otherwise: ${altered.join(', ')}`);
  }
  if (contested.length + altered.length > 0) process.exitCode = 1;
}

function show(terminal: Terminal, plan: RewindPlan): void {
  for (const { group, topic, partitions, gone } of plan.groups) {
    const again = partitions.reduce((sum, { from, to }) => sum + (from - to), 0n);
    terminal.line(`${group} reads ${count(Number(again), 'record')} of ${topic} again`);
    const rows = partitions
      .filter(({ from, to }) => to < from)
      .map(({ partition, from, to }) => [partition, from, to, from - to].map(String));
    const columns = ['partition', 'from', 'back to', 'records'].map((head) => {
      return { head, align: 'right' as const };
    });
    if (rows.length > 0) for (const line of renderTable(columns, rows)) terminal.line(`  ${line}`);
    for (const { partition, from, to } of gone) {
      terminal.line(`  Kafka no longer has ${from} to ${to - 1n} of partition ${partition}: lost`);
    }
  }
  terminal.line(`skipped: what ${plan.subscriptions.join(', ')} still hold`);
  terminal.line(`${count(plan.events, 'published event')} that a consumer lacks will go out again`);
  if (plan.atWork.length > 0) terminal.line(`to be stopped first: ${plan.atWork.join(', ')}`);
}
