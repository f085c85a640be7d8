import { claimTimes } from '@triplock/claims';
import { setTimeout as delay } from 'node:timers/promises';
import { auditSystem, sumSeries, type System } from '@triplock/demo';
import { askClaimState, describeClaims } from '@triplock/launcher';
import { renderTable, style, type Terminal } from '@triplock/command';
import { readMetrics, type Rig, type RunOnly } from '../systems.ts';
import { openServerCounts } from './counts.ts';
import { measuredServices, roleOf, spread, type BenchOptions } from './measurements.ts';
import { expectDrained, orderFor, runLoad, withHelpers, type Bench, type Run } from './runs.ts';
import { warmUp } from './schedule.ts';

/**
 * A window of load before the claims were lost, and one once they were read back, with how long
 * after the loss that was, seconds.
 */
export type ColdPair = { warm: Run; readBack: Run; warmAfterSeconds: number };

/** What `--cold` prints. */
export type ColdReport = { ok: boolean; rig: Rig; pairs: readonly ColdPair[] };

/** Accepted/s, read back ÷ warm. */
const ratioWanted = 0.85;
const auditWaitMs = 300_000;

type Own = { system: System; terminal: Terminal; runOnly: RunOnly; options: BenchOptions };

/**
 * Loads a system whose claims are warm, and again after they were lost and gateways have read them
 * back, in turn: both windows of a pair meet the same machine. Between two pairs the markers are
 * made a day older, which is how a store becomes warm by itself.
 */
export async function runCold({
  system,
  terminal,
  runOnly,
  options,
}: Own): Promise<Omit<ColdReport, 'rig'>> {
  const counts = await openServerCounts(system);
  try {
    const own = { runOnly, counts };
    return await withHelpers({ system, terminal, options, own }, async (bench) => {
      await warmUp(bench, measuredServices);
      const pairs: ColdPair[] = [];
      for (let n = 1; n <= options.repeat; n += 1) {
        terminal.note(`warm, ${n} of ${options.repeat}`);
        const warm = await runWarm(bench);
        terminal.note('the claims are lost');
        const warmAfterSeconds = await loseClaims(bench);
        const readBack = await runWarm(bench);
        await system.claims.ageMarkers(claimTimes.lifeMs);
        await untilWarm(bench);
        pairs.push({ warm, readBack, warmAfterSeconds });
      }
      terminal.note('audit');
      const { ok } = await auditSystem(system, auditWaitMs);
      return { ok, pairs };
    });
  } finally {
    await counts.close();
  }
}

/** @throws when the ledger was asked about keys: the claims were not warm, and it says nothing. */
async function runWarm(bench: Bench): Promise<Run> {
  await untilWarm(bench);
  const before = await questionsTo(bench.system);
  const { run } = await runLoad(bench, {}, measuredServices);
  const asked = (await questionsTo(bench.system)) - before;
  const { accepted } = run.load;
  if (asked === 0) return run;
  throw new Error(`the ledger was asked about ${asked} of ${accepted} payments: no warm claims`);
}

/** Loses the claims, and gives after how many seconds all gateways were warm again. */
async function loseClaims({ system, terminal }: Bench): Promise<number> {
  await system.claims.forget();
  const beganMs = performance.now();
  const isIn = async (wanted: 'cold' | 'warm') => {
    const claims = await askClaimState(system.endpoints);
    terminal.progress(`claims are ${describeClaims(claims)}`);
    return claims?.state === wanted;
  };
  for (const wanted of ['cold', 'warm'] as const) {
    while (!(await isIn(wanted))) {
      if (performance.now() - beganMs > auditWaitMs) throw new Error(`claims are never ${wanted}`);
      await delay(lookEveryMs);
    }
  }
  return (performance.now() - beganMs) / 1_000;
}

const lookEveryMs = 200;

async function questionsTo(system: System): Promise<number> {
  const counter = { name: 'triplock_gateway_ledger_questions_total' };
  const texts = await readMetrics(system, 'ingest-gateway');
  return texts.reduce((sum, text) => sum + sumSeries(text, counter), 0);
}

const triesMax = 60;

/**
 * Until then a gateway takes a bucket for cold that is warm again. It has the code of such a key
 * warm, too, and leaves nothing for a window to do beside its own.
 */
async function untilWarm(bench: Bench): Promise<void> {
  const { system, generator, terminal } = bench;
  const drained = await expectDrained(system, measuredServices);
  let sent = 0;
  for (let n = 1; n <= triesMax; n += 1) {
    const before = await questionsTo(system);
    const { accepted, others } = await generator.ask(orderFor(bench, { seconds: 1 }));
    const asked = (await questionsTo(system)) - before;
    sent += accepted;
    if (accepted > 0 && asked === 0 && Object.keys(others).length === 0) return drained(sent);
    terminal.progress(`${asked} of ${accepted} asked about, others ${JSON.stringify(others)}`);
  }
  throw new Error('the claims are not warm, or what comes is not accepted');
}

/** The pairs for people: medians, and what they were between. */
export function renderCold({ rig, pairs, ok }: ColdReport): string[] {
  const right = (head: string) => ({ head, align: 'right' as const });
  const row = (name: string, figure: (run: Run) => number, digits = 0) => {
    const ratio = spreadOf(
      pairs.map(({ warm, readBack }) => figure(readBack) / figure(warm)),
      2,
    );
    const of = (runs: readonly Run[]) => spreadOf(runs.map(figure), digits);
    return [
      name,
      of(pairs.map(({ warm }) => warm)),
      of(pairs.map(({ readBack }) => readBack)),
      ratio,
    ];
  };
  const rates = pairs.map(({ warm, readBack }) => perSecond(readBack) / perSecond(warm));
  const { median = NaN } = spread(rates) ?? {};
  const micros = (consumer: keyof Run['cpu']) => (run: Run) =>
    (run.cpu[consumer] ?? NaN) / run.load.accepted;
  const all = (run: Run) =>
    Object.values(run.cpu).reduce((sum, each) => sum + each, 0) / run.load.accepted;
  return [
    style.faint(`${rig.cpu}, ${rig.cores} cores; ${rig.commit}; load before ${rig.loadBefore}`),
    '',
    ...renderTable(
      [
        { head: 'everything together' },
        right('warm'),
        right('read back'),
        right('read back ÷ warm'),
      ],
      [
        row('accepted/s', perSecond),
        row('202 after, ms, p50', ({ load }) => load.latencyMs.p50, 1),
        row('202 after, ms, p99', ({ load }) => load.latencyMs.p99, 1),
        row('statements of the gateway a payment', statements, 3),
        row(
          'scripts in Redis a payment',
          ({ counts, load }) => counts!.redis.scripts / load.accepted,
          3,
        ),
        row('ingest-gateway, µs CPU a payment', micros('ingest-gateway')),
        row('redis, µs CPU a payment', micros('redis')),
        row('postgres, µs CPU a payment', micros('postgres')),
        row('all of it, µs CPU a payment', all),
      ],
    ),
    '',
    `warm again after the loss: ${spreadOf(
      pairs.map(({ warmAfterSeconds }) => warmAfterSeconds),
      0,
    )} s`,
    median >= ratioWanted
      ? style.good(`✔ accepted/s read back ÷ warm: ${median.toFixed(2)}`)
      : style.bad(`accepted/s read back ÷ warm: ${median.toFixed(2)}, below ${ratioWanted}`),
    ok ? style.good('✔ no drift') : style.bad('✘ drift'),
  ];
}

const perSecond = ({ load }: Run) => (load.accepted * 1_000) / load.tookMs;
const statements = ({ counts, load }: Run) =>
  (counts!.roles[roleOf('ingest-gateway')]?.statements ?? 0) / load.accepted;

function spreadOf(values: readonly number[], digits: number): string {
  const found = spread(values);
  if (found === undefined) return '–';
  const { min, median, max } = found;
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}
