import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkOut, type SettingsOfServices } from '@triplock/launcher';
import type { System } from '@triplock/demo';
import { renderTable, style } from '@triplock/command';
import { openForCommand } from '@triplock/postgres';
import { describeRig, onOwnSystem, type Launcher, type Listening, type Rig } from '../systems.ts';
import { payModel } from './audit-at-size.ts';
import { makePayments } from './many-payments.ts';
import {
  besideServices,
  cpuBetween,
  measuredServices,
  sampleCpu,
  spread,
  type BenchOptions,
} from './measurements.ts';
import { expectDrained, orderFor, withHelpers, type Bench } from './runs.ts';
import { warmUp } from './schedule.ts';

/** How a figure of this clone stands to the same of the commit, over pairs of runs. */
export type Change = {
  /** Medians. */
  there: number;
  here: number;
  /** Here by there, and what it is between with 99 of 100 chances. */
  ratio: number;
  between: readonly [least: number, most: number];
  /** That does not hold 1: it is more than the noise of the runs. */
  moved: boolean;
};

/** What `--compare` and `--grown` print. */
export type Comparison = {
  rig: Rig;
  /** What the two systems are. */
  there: string;
  here: string;
  pairs: number;
  changes: Readonly<Record<string, Change>>;
};

type Figures = Readonly<Record<string, number>>;
type Pair = readonly [there: Figures, here: Figures];
type Comparing = Listening & { settings: SettingsOfServices; options: BenchOptions };

/**
 * Runs a commit and this clone at the same time, each on a system of its own, and loads them in
 * turn, so that whatever else the machine does meets both. The one that is not loaded has nothing
 * to do.
 *
 * @throws UsageError for a commit that there is not.
 */
export async function compareWith(name: string, comparing: Comparing): Promise<Comparison> {
  const { terminal } = comparing;
  const report = (line: string) => terminal.note(line);
  const checkout = checkOut(name, { purpose: 'compared', report });
  try {
    const launcher = (await import(
      pathToFileURL(join(checkout.folder, 'infra/launcher/index.ts')).href
    )) as Launcher;
    const { pairs, rig } = await loadInTurn(comparing, { launcher });
    const here = `here (${rig.commit})`;
    return { rig, there: checkout.commit, here, pairs: pairs.length, changes: changesIn(pairs) };
  } finally {
    checkout.remove();
  }
}

/**
 * The same of two systems of this clone, of which one begins empty and the other with so many
 * ledger rows of days that were reaped elsewhere.
 */
export async function compareGrown(ledgerRows: number, comparing: Comparing): Promise<Comparison> {
  const { terminal, signal } = comparing;
  const grow = async (system: System) => {
    const making = { url: system.endpoints.postgres, terminal, signal };
    await makePayments(making, await payModel(system), { payments: 0, ledgerRows });
    const { url } = making;
    const database = openForCommand({ url, applicationName: 'bench', statementTimeoutMs: 600_000 });
    // What was written is written back now, and not beside the first pairs.
    await database.query('CHECKPOINT').finally(database.close);
  };
  const { pairs, rig } = await loadInTurn(comparing, { grow });
  const here = `${ledgerRows} rows`;
  return { rig, there: 'empty', here, pairs: pairs.length, changes: changesIn(pairs) };
}

type Different = { launcher?: Launcher; grow?: (here: System) => Promise<void> };

async function loadInTurn(
  { terminal, signal, settings, options }: Comparing,
  { launcher, grow }: Different,
): Promise<{ pairs: Pair[]; rig: Rig }> {
  const rig = describeRig();
  const own = { terminal, signal, settings };
  const compared = { ...own, name: 'compared', ...(launcher && { launcher }) } as const;
  const pairs = await onOwnSystem({ ...own, name: 'bench' }, async (here) => {
    await grow?.(here);
    return onOwnSystem(compared, (there) =>
      withHelpers({ system: there, terminal, options }, (bench) =>
        runPairs(bench, { ...bench, system: here }),
      ),
    );
  });
  return { pairs, rig };
}

async function runPairs(there: Bench, here: Bench): Promise<Pair[]> {
  const { terminal, options } = there;
  await warmUp(there, measuredServices);
  await warmUp(here, measuredServices);
  const pairs: Pair[] = [];
  for (let n = 1; n <= options.repeat; n += 1) {
    terminal.note(`pair ${n} of ${options.repeat}`);
    // Who goes first takes turns: the second finds another machine.
    const swapped = n % 2 === 0;
    const first = await measure(swapped ? here : there);
    const second = await measure(swapped ? there : here);
    pairs.push(swapped ? [second, first] : [first, second]);
  }
  return pairs;
}

/** A closed loop until all is done. It asks services alone: another commit has other tables. */
async function measure(bench: Bench): Promise<Figures> {
  const { system, generator } = bench;
  const drained = await expectDrained(system, measuredServices);
  const before = await sampleCpu(system, measuredServices);
  const startedAt = performance.now();
  const { accepted, tookMs, latencyMs } = await generator.ask(orderFor(bench, {}));
  await drained(accepted);
  const doneMs = performance.now() - startedAt;
  const cpu = cpuBetween(before, await sampleCpu(system, measuredServices));
  const names = [...measuredServices, ...besideServices].filter((name) => cpu[name] !== undefined);
  const micros = names.map((name) => [`${name}, µs a payment`, cpu[name]! / accepted] as const);
  return {
    'accepted/s': (accepted * 1_000) / tookMs,
    'done everywhere/s': (accepted * 1_000) / doneMs,
    '202 after, ms, p50': latencyMs.p50,
    '202 after, ms, p99': latencyMs.p99,
    ...Object.fromEntries(micros),
    'all of it, µs a payment': micros.reduce((sum, [, each]) => sum + each, 0),
  };
}

/** Each figure that both have, and that is more than what is too little to be measured. */
function changesIn(pairs: readonly Pair[]): Comparison['changes'] {
  const names = Object.keys(pairs[0]?.[1] ?? {}).filter((name) =>
    pairs.every((pair) => pair.every((figures) => figures[name]! > 0)),
  );
  const changes = names.map((name) => {
    return [name, changeOf(pairs.map(([there, here]) => [there[name]!, here[name]!]))] as const;
  });
  return Object.fromEntries(changes);
}

// Student's t for 99 of 100, two-sided, from one degree of freedom on.
const quantiles = [63.66, 9.92, 5.84, 4.6, 4.03, 3.71, 3.5, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01];

/** By the pairs' ratios, on their logarithms: what slowed both runs of a pair is in neither. */
export function changeOf(pairs: readonly (readonly [there: number, here: number])[]): Change {
  const logs = pairs.map(([there, here]) => Math.log(here / there));
  const mean = logs.reduce((sum, each) => sum + each, 0) / logs.length;
  const squares = logs.reduce((sum, each) => sum + (each - mean) ** 2, 0);
  const freedom = logs.length - 1;
  const error = Math.sqrt(squares / freedom / logs.length);
  const apart = (quantiles[freedom - 1] ?? quantiles.at(-1)!) * error;
  const between = [Math.exp(mean - apart), Math.exp(mean + apart)] as const;
  return {
    there: spread(pairs.map(([there]) => there))?.median ?? NaN,
    here: spread(pairs.map(([, here]) => here))?.median ?? NaN,
    ratio: Math.exp(mean),
    between,
    moved: between[0] > 1 || between[1] < 1,
  };
}

/** The comparison for a terminal. */
export function renderComparison({ there: one, here: other, ...rest }: Comparison): string[] {
  const { pairs, changes } = rest;
  const right = (head: string) => ({ head, align: 'right' as const });
  const digits = (value: number) => value.toFixed(value < 10 ? 1 : 0);
  const percent = (ratio: number) => {
    const change = ratio * 100 - 100;
    if (change > 999) return '> +999 %';
    return `${change < 0 ? '−' : '+'}${Math.abs(change).toFixed(1)} %`;
  };
  const rows = Object.entries(changes).map(([name, { there, here, ratio, between, moved }]) => [
    name,
    ...[there, here].map(digits),
    percent(ratio),
    `${percent(between[0])} to ${percent(between[1])}`,
    moved ? style.good('moved') : '',
  ]);
  const columns = [right(one), right(other), right('change'), right('between')];
  return [
    ...renderTable([{ head: 'figure' }, ...columns, { head: '' }], rows),
    '',
    `${pairs} pairs of runs; what does not say "moved" is within their noise`,
  ];
}
