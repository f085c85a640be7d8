import { claimTimes } from '@triplock/claims';
import { type System, auditSystem } from '@triplock/demo';
import { continueProcess, pauseProcess, declarations } from '@triplock/launcher';
import { renderTable, style, type Terminal } from '@triplock/command';
import { type Rig, type RunOnly, describeRig, newRun } from '../systems.ts';
import { countsBetween, openServerCounts, type CountReader, type ServerCounts } from './counts.ts';
import { openConnections, requestOf, type Connection } from './load-generator.ts';
import { measuredServices, readProgress, roleOf, type MeasuredService } from './measurements.ts';
import { drainStage } from './runs.ts';

/** Payments that come together, how often, and how many come one by one before. */
const burst = 64;
const bursts = 20;
const singles = 64;
/** The same after the claims were lost. */
const coldBursts = 10;

/** Something that is counted for each payment, and the most that it may be. */
export type Counted = { what: string; count: number; most: number };

/** What `--counts` prints. */
export type CountsReport = { ok: boolean; rig: Rig; counts: readonly Counted[] };

/**
 * The most for a payment, with some air above what it is: what a trip, a statement or an index more
 * for each payment goes beyond. Raise one only with the reason for what it buys.
 */
const most = {
  singly: { scripts: 2.1, reads: 2.3, batches: 1 },
  together: { scripts: 0.15, reads: 0.2, batches: 0.15, bytes: 900 },
  // After a loss of the claims: of each the ledger is asked, and the first of a bucket claim twice.
  cold: { scripts: 0.15, reads: 0.2, batches: 0.15, statements: 0.06 },
  roles: {
    'ledger-worker': { statements: 0.08, batches: 0.03, walBytes: 3_200 },
    'outbox-dispatcher': { statements: 0.08, batches: 0.03, walBytes: 1_600, publishCalls: 0.04 },
    auditor: { statements: 0.12, batches: 0.03, walBytes: 1_300 },
  } satisfies Partial<Record<MeasuredService, Most>>,
};
type Most = NonNullable<(typeof declarations)[number]['watch']>['most'] & { publishCalls?: number };

/** A consumer of events brings its own. */
const mostOf: ReadonlyMap<string, Most> = new Map<string, Most>([
  ...Object.entries(most.roles),
  ...declarations.flatMap(({ name, watch }): [string, Most][] =>
    watch === undefined ? [] : [[name, watch.most]],
  ),
]);

type Guarded = { system: System; terminal: Terminal; runOnly: RunOnly };

/**
 * Counts what the servers are asked for a payment where batches are known: at the gateway one by
 * one and in bursts that it finds all at once, also after its claims were lost, and by every later
 * stage on one backlog. How fast anything is changes none of that but the looks of those who wait,
 * for which there is air.
 */
export async function countAll({ system, terminal, runOnly }: Guarded): Promise<CountsReport> {
  const rig = describeRig();
  const reader = await openServerCounts(system);
  const targets = system.endpoints.gateways;
  const connections = await openConnections({ targets, connections: burst });
  try {
    const sending = openSending(system, connections);
    terminal.note('payments before, which fill caches and make first pages');
    await sending.together(2);
    await auditSystem(system, 60_000);
    await runOnly(['ingest-gateway']);
    terminal.note(`the claims are lost, then ${coldBursts} times ${burst} at once`);
    await system.claims.forget();
    // The first of them notes the loss.
    await sending.singly(1);
    const cold = await counting(reader, () => sending.together(coldBursts));
    await system.claims.ageMarkers(claimTimes.lifeMs);
    terminal.note(`${singles} payments one by one, then ${bursts} times ${burst} at once`);
    const singly = await counting(reader, () => sending.singly(singles));
    const together = await counting(reader, () => sending.together(bursts));
    const counts = [
      ...ofGateway('one by one', singly, { of: singles, most: most.singly }),
      ...ofGateway('at once', together, { of: bursts * burst, most: most.together }),
      ...ofGateway('at once, claims lost', cold, { of: coldBursts * burst, most: most.cold }),
      ...(await countStages({ system, terminal, runOnly }, reader)),
    ];
    return { ok: counts.every((each) => each.count <= each.most), rig, counts };
  } finally {
    for (const connection of connections) connection.close();
    await reader.close();
  }
}

async function counting(reader: CountReader, work: () => Promise<void>): Promise<ServerCounts> {
  const before = await reader.read();
  await work();
  return countsBetween(before, await reader.read());
}

function openSending({ home, endpoints }: System, connections: readonly Connection[]) {
  const apiKeys = endpoints.partners.map(({ apiKey }) => apiKey);
  const order = { apiKeys, run: newRun() };
  const gateway = { home, name: 'ingest-gateway-1' };
  let sent = 0;
  const send = async (connection: Connection, written?: () => void) => {
    const status = await connection.send(requestOf(order, sent++), written);
    if (status !== '202') throw new Error(`a payment was answered ${status}`);
  };
  return {
    singly: async (count: number) => {
      for (let n = 0; n < count; n += 1) await send(connections[0]!);
    },
    /** The gateway stands still until all of a burst is in its sockets. */
    together: async (count: number) => {
      for (let n = 0; n < count; n += 1) {
        await pauseProcess(gateway);
        const written = connections.map(() => Promise.withResolvers<void>());
        const sending = connections.map((each, at) => send(each, written[at]!.resolve));
        await Promise.all(written.map(({ promise }) => promise)).finally(() =>
          continueProcess(gateway),
        );
        await Promise.all(sending);
      }
    },
  };
}

const gatewayRole = roleOf('ingest-gateway');

type GatewayMost = {
  scripts: number;
  reads: number;
  batches: number;
  bytes?: number;
  statements?: number;
};

function ofGateway(
  how: string,
  { redis, kafka, roles }: ServerCounts,
  { of, most: limit }: { of: number; most: GatewayMost },
): Counted[] {
  const each = (what: string, count: number, atMost: number) => {
    return { what: `${what}, ${how}`, count: count / of, most: atMost };
  };
  return [
    each('scripts in Redis', redis.scripts, limit.scripts),
    each('reads by Redis', redis.reads, limit.reads),
    each('batches in the topic', kafka.batches, limit.batches),
    ...(limit.bytes === undefined ? [] : [each('bytes in Redis', redis.bytes, limit.bytes)]),
    ...(limit.statements === undefined
      ? []
      : [each('statements', (roles[gatewayRole] ?? nothing).statements, limit.statements)]),
  ];
}

async function countStages(
  { system, terminal, runOnly }: Guarded,
  counts: CountReader,
): Promise<Counted[]> {
  const count = 1 + singles + (coldBursts + bursts) * burst;
  const running: MeasuredService[] = ['ingest-gateway'];
  const found: Counted[] = [];
  for (const stage of measuredServices.slice(1)) {
    running.push(stage);
    const order = { stage, running, count };
    const drained = await drainStage({ system, terminal, own: { runOnly, counts } }, order);
    const { statements, batches, walBytes } = drained.counts!.roles[roleOf(stage)] ?? nothing;
    const limit = mostOf.get(stage)!;
    const each = (what: string, counted: number, atMost: number) =>
      found.push({ what: `${what}, ${stage}`, count: counted / count, most: atMost });
    each('statements', statements, limit.statements);
    each('batches', batches, limit.batches);
    each('WAL bytes', walBytes, limit.walBytes);
    if (limit.publishCalls !== undefined) {
      const { publishCalls } = await readProgress(system, stage);
      each('publish calls', publishCalls, limit.publishCalls);
    }
  }
  return found;
}

/** Of a server without pg_stat_statements: what nobody counted is not below its limit. */
const nothing = { statements: NaN, batches: NaN, walBytes: NaN };

/** The counts for a terminal. */
export function renderCounts({ ok, counts }: CountsReport): string[] {
  const right = (head: string) => ({ head, align: 'right' as const });
  const rows = counts.map(({ what, count, most: limit }) => [
    what,
    count.toFixed(count < 100 ? 2 : 0),
    `${limit}`,
    count <= limit ? '' : style.bad('TOO MANY'),
  ]);
  return [
    ...renderTable(
      [{ head: 'for a payment' }, right('count'), right('at most'), { head: '' }],
      rows,
    ),
    '',
    ok ? style.good('✔ nothing is above its limit') : style.bad('✘ more than its limit'),
  ];
}
