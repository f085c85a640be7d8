import { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { inspectClaims } from '@triplock/claim-stores';
import type { ClaimsInspector } from '@triplock/claims';
import {
  committedOffsets,
  endOffsets,
  havePassed,
  type LedgerNow,
  openLedgerNow,
} from '@triplock/demo';
import {
  type Endpoints,
  bringUp,
  claimStoreAt,
  systemStatus,
  usualNames,
} from '@triplock/launcher';
import type { LedgerLease } from '@triplock/ledger';
import { type Database, openForCommand } from '@triplock/postgres';
import { eventually, stripeControl } from '@triplock/testing';
import { Kafka, logLevel } from 'kafkajs';
import { type Partner, partner } from './partner.ts';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';

/** Set by `npm run prove`, which tries promises on instances of its own. */
const given = process.env['TRIPLOCK_E2E_HOME'];

/** The instance that all promises are tried on: its own ports and data, two of each service. */
export const home = given ?? fileURLToPath(new URL('../../.triplock/e2e', import.meta.url));

/**
 * Brings the system up, or finds it up: what a promise broke on purpose is started again, the rest
 * is left alone. A new one is in containers where an engine has the images, as the parts of the
 * other tests are, and in processes else; TRIPLOCK_TEST_PARTS decides it too. `npm test` takes it
 * down at the end; after a single file it stays up for the next.
 */
export function upSystem(): Promise<Endpoints> {
  const usual = given === undefined && ({ parts: partsAsked(), agent: 'up' } as const);
  return bringUp({ home, replicas: 2, ...usual });
}

function partsAsked() {
  const asked = process.env['TRIPLOCK_TEST_PARTS']?.trim();
  if (asked === 'native') return 'native';
  return asked === 'containers' ? 'docker' : 'choose';
}

/** The running system as a file's tests see it. */
export type Setup = {
  system: Endpoints;
  acme: Partner;
  globex: Partner;
  look: Recorder;
  /** The claim store, past the gateways. */
  claims: ClaimsInspector;
  /** Has this done after the file's tests, before what they left behind is looked for. */
  atEnd(work: () => Promise<void>): void;
};

/**
 * Has the system up before the file's tests run, and then what else they need: hooks of a file do
 * not wait for one another. What this returns is filled in by the time a test runs. `find` is for
 * those that have it up otherwise.
 */
export function onTheSystem(
  prepare?: (setup: Setup) => Promise<void>,
  find: () => Promise<Endpoints> = upSystem,
): Setup {
  const ends: (() => Promise<void>)[] = [];
  const setup = { atEnd: (work) => void ends.push(work) } as Setup;
  let there: readonly string[] = [];
  before(async () => {
    const system = await find();
    const [acme, globex] = [partner(system, 'acme'), partner(system, 'globex')];
    const claims = await inspectClaims(claimStoreAt(system.claims, system, usualNames.claims));
    const look = await openRecorder(system);
    Object.assign(setup, { system, acme, globex, look, claims });
    there = await endpointsOfTests(setup);
    await prepare?.(setup);
  });
  after(async () => {
    try {
      for (const end of ends.toReversed()) await end();
      if (setup.look !== undefined) await seeNothingLeft(setup, there);
    } finally {
      await Promise.all([setup.look?.close(), setup.claims?.close()]);
    }
  });
  return setup;
}

/**
 * Waits until the workers' group has passed all that is in the topic now, of every partition: also
 * what files before this one left behind, whose partitions a worker may have died with.
 */
export async function allPosted(system: Endpoints): Promise<void> {
  const kafka = new Kafka({ brokers: system.kafka.split(','), logLevel: logLevel.NOTHING });
  const brokers = { kafka, names: usualNames };
  const end = await endOffsets(brokers);
  await eventually(async () => havePassed(await committedOffsets(brokers), end), {
    withinMs: 120_000,
    what: `a group that has passed ${[...end].map((each) => each.join(':')).join(' ')}`,
  });
}

/**
 * Fails a file that leaves the system in a state that the next one does not expect: webhooks that
 * are sent for a day to a server which has ended, a provider that goes on failing, a process that
 * is gone or stands still.
 */
async function seeNothingLeft(setup: Setup, there: readonly string[]): Promise<void> {
  const { system } = setup;
  const endpoints = (await endpointsOfTests(setup)).filter((each) => !there.includes(each));
  const asked = Object.values(system.providers).map(async ({ url }) => {
    const provider = stripeControl(url, system.controlToken);
    return (await provider<{ faults: { fault: string }[] }>('GET', '/faults')).faults;
  });
  const faults = (await Promise.all(asked)).flat();
  const { processes } = await systemStatus({ home, withinMs: 60_000 });
  const left = [
    ...endpoints.map((each) => `the endpoint ${each}`),
    ...faults.map(({ fault }) => `a provider's fault ${fault}`),
    ...processes.flatMap(({ name, state }) => (state === 'ready' ? [] : `${name} ${state}`)),
  ];
  if (left.length > 0) throw new Error(`left behind in the system: ${left.join(', ')}`);
}

/**
 * Endpoints that webhooks go to and that are not the catcher's, which has a path for each partner.
 */
async function endpointsOfTests({ look }: Setup): Promise<string[]> {
  const rows = await look.database.query<{ endpoint: string }>(
    `SELECT url || ' of ' || partner_id AS endpoint FROM partners.open_webhook_endpoints
     WHERE url NOT LIKE '%/hooks/%'`,
  );
  return rows.map(({ endpoint }) => endpoint);
}

const root = fileURLToPath(new URL('../../', import.meta.url));

/** How a command ended and what it printed. */
export type Ended = { code: number; stdout: string; stderr: string };

/** Runs `npm run <name> -- <args>` on the instance of the promises, as a user would. */
export function command(name: string, ...args: string[]): Promise<Ended> {
  const launcher = ['infra/launcher/triplock.mjs', name, ...args, '--home', home];
  return new Promise((resolve) => {
    // An audit's report grows with partners and currencies; what is beyond the limit is cut off.
    const options = { cwd: root, maxBuffer: 256 * 2 ** 20 };
    execFile(process.execPath, launcher, options, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stdout, stderr });
    });
  });
}

/** What a command came to that was interrupted. */
export type Interrupted = { code: number; output: string };

/**
 * Runs a command of the running system, or of the instance in another folder, as a person does, and
 * presses Ctrl-C once it has printed the words, after `look`. What it prints afterwards is read to
 * its end.
 */
export async function interruptAt(
  words: RegExp,
  args: readonly string[],
  { look, of = home }: { look?: () => Promise<void>; of?: string } = {},
): Promise<Interrupted> {
  const command = ['infra/launcher/triplock.mjs', ...args, '--home', of];
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const child = spawn(process.execPath, command, { cwd: root, stdio: [...stdio] });
  const exit = once(child, 'exit');
  let output = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    const before = words.test(output);
    output += String(text);
    if (before || !words.test(output)) continue;
    await look?.();
    child.kill('SIGINT');
  }
  const [code] = (await exit) as [number];
  return { code, output };
}

type Seeing = Pick<Setup, 'look'>;

/** Live leases, by the ledger's own clock. */
export async function readLeases({ look }: Seeing): Promise<LedgerLease[]> {
  const { apart } = look.ledger;
  if (apart !== undefined) return apart.leases();
  return look.database.query<LedgerLease>(
    `SELECT bucket, split_part(owner, ':', 1) AS owner, epoch FROM ledger.outbox_leases
     WHERE owner IS NOT NULL AND expires_at > now()`,
  );
}

/** Has a transaction looked after now, as the time does. */
export async function makeDue({ look }: Seeing, txnId: string): Promise<void> {
  const { apart } = look.ledger;
  if (apart !== undefined) return apart.makeDue(txnId);
  await look.database.query(
    `UPDATE ledger.transactions SET due_at = now() WHERE txn_id = $1 AND state = 'pending'`,
    [txnId],
  );
}

/** A webhook as the catcher received it. */
export type CaughtWebhook = {
  id: string;
  partner: string;
  verified: boolean;
  attempts: number;
  body: { type: string; sequence?: number; data: Record<string, unknown> };
};

/** How often one payment is found in each layer. */
type LayerCounts = {
  ledger: number;
  entries: number;
  outbox: number;
  published: number;
  inbox: number;
  deliveries: number;
};

/** Looks into the system from outside, by SQL and HTTP. */
export type Recorder = {
  counts(txnId: string): Promise<LayerCounts>;
  /** Ids that the ledger has, of those given. */
  inLedger(txnIds: readonly string[]): Promise<Set<string>>;
  ledgerCount(partner: string): Promise<number>;
  webhooks(txnId: string): Promise<CaughtWebhook[]>;
  /** Everything but the ledger. */
  database: Database;
  /** The ledger as it is now, with everything else, wherever it is kept. */
  ledger: LedgerNow;
  close(): Promise<void>;
};

const countsSql = `
  SELECT (SELECT count(*) FROM ledger.transactions WHERE txn_id = $1)::int AS ledger,
         (SELECT count(*) FROM ledger.entries WHERE txn_id = $1)::int AS entries,
         (SELECT count(*) FROM ledger.outbox WHERE txn_id = $1)::int AS outbox,
         (SELECT count(*) FROM auditor.published WHERE txn_id = $1)::int AS published,
         (SELECT count(*) FROM notifier.inbox WHERE ordering_key = $1)::int AS inbox,
         (SELECT count(*) FROM webhooks.deliveries WHERE txn_id = $1)::int AS deliveries`;

/** Opens a recorder of a running system. */
async function openRecorder(system: Endpoints): Promise<Recorder> {
  const database = openForCommand({
    url: system.postgres,
    applicationName: 'e2e',
    connectionsMax: 2,
  });
  const ledger = await openLedgerNow(system, usualNames, database);
  return {
    database,
    ledger,
    counts: async (txnId) => (await ledger.query<LayerCounts>(countsSql, [txnId]))[0]!,
    inLedger: async (txnIds) => {
      const sql = 'SELECT txn_id FROM ledger.transactions WHERE txn_id = ANY($1::uuid[])';
      const rows = await ledger.query<{ txn_id: string }>(sql, [txnIds]);
      return new Set(rows.map((row) => row.txn_id));
    },
    ledgerCount: async (partner) => {
      const sql = 'SELECT count(*)::int AS n FROM ledger.transactions WHERE partner_id = $1';
      return (await ledger.query<{ n: number }>(sql, [partner]))[0]!.n;
    },
    webhooks: async (txnId) => {
      const received = await fetch(`${system.catcher}/received`);
      const all = (await received.json()) as CaughtWebhook[];
      return all.filter((each) => each.body.data['id'] === txnId);
    },
    close: async () => {
      await Promise.all([ledger.close(), database.close()]);
    },
  };
}
