import type { Claims } from '@triplock/claims';
import type { ClaimStore } from '@triplock/launcher';
import { type Terminal, renderTable, style } from '@triplock/operator';
import type { ClaimBytes } from '@triplock/claims-inspector';
import { type Spread, spread } from '../bench/cost-sheet.ts';
import { type Rig, describeRig } from '../systems.ts';
import { type Survival, killAndCheck } from './kill-store.ts';
import {
  type ComparedStore,
  aFreshClaim,
  bodies,
  claimAndComplete,
  keepBusy,
  warmUp,
} from './own-stores.ts';

/** What was asked for. */
export type CompareSettings = { seconds: number; repeat: number; atOnce: number; claims: number };

/** What one store came to. */
export type StoreFigures = {
  store: ClaimStore;
  /** Claims, each with its completion. */
  perSecond: Spread;
  /** The claim alone. */
  latencyMs: { p50: Spread; p99: Spread };
  /** CPU of the process that claims, its client included, for a claim and its completion. */
  cpuMicros: Spread;
  /** Of payments with an ordinary body, and with the longest that is valid. */
  bytesPerClaim: Record<keyof typeof bodies, ClaimBytes>;
  afterKill: Survival;
};

/** What `--json` prints. */
export type Comparison = { rig: Rig; settings: CompareSettings; stores: readonly StoreFigures[] };

type Run = { perSecond: number; p50: number; p99: number; cpuMicros: number };

/**
 * Measures the stores in turn, so that whatever else the machine does meets all, and kills each.
 */
export async function compareStores(
  {
    stores,
    terminal,
    signal,
  }: {
    stores: readonly ComparedStore[];
    terminal: Terminal;
    signal: AbortSignal;
  },
  settings: CompareSettings,
): Promise<Comparison> {
  const rig = describeRig();
  const { atOnce, repeat, seconds } = settings;
  const runs = new Map<ClaimStore, Run[]>(stores.map(({ name }) => [name, []]));
  const opened = await Promise.all(
    stores.map(async ({ name, open }) => ({ name, claims: await open() })),
  );
  try {
    terminal.note('warming up');
    for (const { claims } of opened) {
      await warmUp(claims);
      await measure(claims, { atOnce, ms: 1_000, signal });
    }
    for (let n = 1; n <= repeat; n += 1) {
      for (const { name, claims } of opened) {
        terminal.note(`${name}, ${n} of ${repeat}: ${seconds} s`);
        runs.get(name)!.push(await measure(claims, { atOnce, ms: seconds * 1_000, signal }));
      }
    }
  } finally {
    await Promise.all(opened.map(({ claims }) => claims.close()));
  }
  const figures: StoreFigures[] = [];
  for (const store of stores) {
    const bytesPerClaim = {
      ordinary: await bytesOf(store, 'ordinary'),
      longest: await bytesOf(store, 'longest'),
    };
    terminal.note(`${store.name}: kill -9`);
    const afterKill = await killAndCheck(store, { ...settings, signal });
    const over = (figure: (run: Run) => number) => spread(runs.get(store.name)!.map(figure));
    figures.push({
      store: store.name,
      perSecond: over((run) => run.perSecond),
      latencyMs: { p50: over(({ p50 }) => p50), p99: over(({ p99 }) => p99) },
      cpuMicros: over((run) => run.cpuMicros),
      ...{ bytesPerClaim, afterKill },
    });
  }
  return { rig, settings, stores: figures };
}

const bytesOfClaims = 200;

/** Under a namespace of their own, because they are compared with each other. */
async function bytesOf(store: ComparedStore, body: keyof typeof bodies): Promise<ClaimBytes> {
  const namespace = `${store.name}-${body}`;
  const claims = await store.open(namespace);
  try {
    await warmUp(claims);
    for (let n = 0; n < bytesOfClaims; n += 1) {
      await claimAndComplete(claims, aFreshClaim(bodies[body]));
    }
  } finally {
    await claims.close();
  }
  const reached = store.reach(namespace);
  return reached.bytesPerClaim().finally(() => reached.close());
}

async function measure(
  claims: Claims,
  amount: { atOnce: number; ms: number; signal: AbortSignal },
): Promise<Run> {
  const took: number[] = [];
  const [began, cpuBefore] = [performance.now(), process.cpuUsage()];
  await keepBusy(amount, async () => {
    took.push(await claimAndComplete(claims, aFreshClaim()));
  });
  const { user, system } = process.cpuUsage(cpuBefore);
  const passedMs = performance.now() - began;
  const sorted = took.toSorted((one, other) => one - other);
  const quantile = (part: number) => sorted[Math.floor((sorted.length - 1) * part)]!;
  return {
    perSecond: (took.length * 1_000) / passedMs,
    ...{ p50: quantile(0.5), p99: quantile(0.99) },
    cpuMicros: (user + system) / took.length,
  };
}

/** The stores side by side, for people. */
export function renderComparison({ rig, settings, stores }: Comparison): string[] {
  const { cpu, cores, memoryGiB, os, node, commit, loadBefore } = rig;
  const { seconds, repeat, atOnce } = settings;
  const figures = (digits: number) => (spread: Spread) => {
    const [median, min, max] = [spread.median, spread.min, spread.max].map((figure) =>
      figure.toFixed(digits),
    );
    return `${median} (${min}–${max})`;
  };
  const [whole, fine] = [figures(0), figures(2)];
  const rows = [
    ['claim and completion/s', ...stores.map(({ perSecond }) => whole(perSecond))],
    ['claim after, ms, p50', ...stores.map(({ latencyMs }) => fine(latencyMs.p50))],
    ['claim after, ms, p99', ...stores.map(({ latencyMs }) => fine(latencyMs.p99))],
    ['CPU of Node, µs', ...stores.map(({ cpuMicros }) => whole(cpuMicros))],
    ...Object.keys(bodies).flatMap((body) => {
      const bytes = stores.map(({ bytesPerClaim }) => bytesPerClaim[body as keyof typeof bodies]);
      return [
        [`bytes a claim, ${body} body`, ...bytes.map(({ claim }) => claim.toFixed(0))],
        [`shown beside it, ${body} body`, ...bytes.map(({ shown }) => shown.toFixed(0))],
      ];
    }),
    ['kept after kill -9', ...stores.map(({ afterKill }) => keptOf(afterKill))],
    ['lost, noticed', ...stores.map(({ afterKill }) => `${afterKill.lostNoticed}`)],
    ['lost, unnoticed', ...stores.map(({ afterKill }) => `${afterKill.lostUnnoticed}`)],
    ['new keys afterwards', ...stores.map(({ afterKill }) => newKeysOf(afterKill))],
  ];
  const columns = [
    { head: 'median (min–max)' },
    ...stores.map(({ store }) => ({ head: store, align: 'right' as const })),
  ];
  return [
    ...[
      `${cpu}, ${cores} cores, ${memoryGiB} GiB; ${os}; Node ${node}; commit ${commit}; load before ${loadBefore}`,
      `${repeat} × ${seconds} s each in turn, ${atOnce} claims at once; stores and client share the machine; dynamodb is DynamoDB Local`,
    ].map(style.faint),
    '',
    ...renderTable(columns, rows),
  ];
}

function keptOf({ kept, acknowledged }: StoreFigures['afterKill']): string {
  return `${kept} of ${acknowledged}`;
}

function newKeysOf({ coldAfterwards }: StoreFigures['afterKill']): string {
  return coldAfterwards ? 'ask the ledger' : 'claimed at once';
}
