import { storeNamed } from '@triplock/claim-stores';
import type { ClaimOutcome, ClaimRequest, Claims, ClaimBytes } from '@triplock/claims';
import { until } from '@triplock/demo';
import type { ClaimStore } from '@triplock/launcher';
import { renderTable, style, type Terminal } from '@triplock/command';
import {
  aFreshClaim,
  bodies,
  claimAndComplete,
  keepBusy,
  warmUp,
  type ComparedStore,
} from './own-stores.ts';
import { spread, type Spread } from '../bench/measurements.ts';
import { describeRig, type Rig } from '../systems.ts';

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
    const over = (figure: (run: Run) => number) => spread(runs.get(store.name)!.map(figure))!;
    figures.push({
      store: store.name,
      perSecond: over((run) => run.perSecond),
      latencyMs: { p50: over(({ p50 }) => p50), p99: over(({ p99 }) => p99) },
      cpuMicros: over((run) => run.cpuMicros),
      bytesPerClaim,
      afterKill,
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
  const reached = await store.reach(namespace);
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
    p50: quantile(0.5),
    p99: quantile(0.99),
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
  const standIns = stores.map(({ store }) => {
    const program = storeNamed(store).brings?.program;
    return program?.from === 'npm' ? `; ${store} is ${program.package}, which stands for it` : '';
  });
  const columns = [
    { head: 'median (min–max)' },
    ...stores.map(({ store }) => ({ head: store, align: 'right' as const })),
  ];
  return [
    ...[
      `${cpu}, ${cores} cores, ${memoryGiB} GiB; ${os}; Node ${node}; commit ${commit}; load before ${loadBefore}`,
      `${repeat} × ${seconds} s each in turn, ${atOnce} claims at once; stores and client share the machine${standIns.join('')}`,
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

/** What became of acknowledged claims by kill -9 of their store. */
export type Survival = {
  /** Completed and acknowledged before the kill; the last of them in the moment of it. */
  acknowledged: number;
  /** Answered by the store afterwards as before. */
  kept: number;
  /** Gone, and the store says that it cannot know: the ledger is asked. */
  lostNoticed: number;
  /** Gone, and taken for new. Guard 2 has to catch these. */
  lostUnnoticed: number;
  /** Whether the ledger is asked about new keys until it has caught up. */
  coldAfterwards: boolean;
};

/**
 * Kills a store while it is written to, has it up again, and asks it for all that it acknowledged.
 */
async function killAndCheck(
  store: ComparedStore,
  { atOnce, claims: wanted, signal }: { atOnce: number; claims: number; signal: AbortSignal },
): Promise<Survival> {
  const acknowledged = await acknowledgedUntilKilled(store, { atOnce, wanted });
  const claims = await store.open();
  try {
    const check = () =>
      claims.ping().then(
        () => true,
        () => false,
      );
    await until({ what: `${store.name} to answer again`, signal, check });
    const outcomes: ClaimOutcome['outcome'][] = [];
    for (let from = 0; from < acknowledged.length; from += atOnce) {
      const some = acknowledged.slice(from, from + atOnce);
      const again = await Promise.all(some.map((request) => claims.claim(request)));
      outcomes.push(...again.map(({ outcome }) => outcome));
    }
    const count = (...wantedOnes: ClaimOutcome['outcome'][]) =>
      outcomes.filter((outcome) => wantedOnes.includes(outcome)).length;
    const fresh = await claims.claim(aFreshClaim());
    return {
      acknowledged: acknowledged.length,
      kept: count('completed'),
      lostNoticed: count('cold'),
      // An answer that is gone while its claim is there is as lost.
      lostUnnoticed: count('claimed', 'in-flight', 'reused'),
      coldAfterwards: fresh.outcome === 'cold',
    };
  } finally {
    await claims.close();
  }
}

async function acknowledgedUntilKilled(
  store: ComparedStore,
  { atOnce, wanted }: { atOnce: number; wanted: number },
): Promise<ClaimRequest[]> {
  const claims = await store.open();
  const acknowledged: ClaimRequest[] = [];
  let isKilled = false;
  const enough = Promise.withResolvers<void>();
  const worker = async () => {
    while (!isKilled) {
      const request = aFreshClaim();
      if (!(await tryToComplete(claims, request))) break;
      acknowledged.push(request);
      if (acknowledged.length >= wanted) enough.resolve();
    }
  };
  try {
    await warmUp(claims);
    const workers = Promise.all(Array.from({ length: atOnce }, worker));
    await Promise.race([enough.promise, workers]);
    // They go on writing until the store is gone.
    await store.killAndRestart().finally(() => (isKilled = true));
    await workers;
  } finally {
    await claims.close();
  }
  if (acknowledged.length < wanted) {
    throw new Error(`${store.name} acknowledged ${acknowledged.length} claims and then no more`);
  }
  return acknowledged;
}

/** What is not acknowledged may be lost. */
async function tryToComplete(claims: Claims, request: ClaimRequest): Promise<boolean> {
  return claimAndComplete(claims, request).then(
    () => true,
    () => false,
  );
}
