import { mkdirSync } from 'node:fs';
import { type System, auditSystem, hasSimulator, withProviderLatency } from '@triplock/demo';
import { type K6, findK6 } from '@triplock/launcher';
import { CommandError, count, type Terminal, renderTable, style } from '@triplock/command';
import type { AuditReport } from '@triplock/inspect';
import { type Rig, describeRig, newRun, noteClaims, requireGateway } from '../systems.ts';
import {
  type Check,
  type Knee,
  type Tries,
  judgeAnswers,
  judgeLevel,
  judgeRun,
  searchKnee,
} from './judge.ts';
import { judgeBehind, sendBehind, type BehindFigures } from './behind.ts';
import { judgeCardLimit, sendBeyondLimit, type CardLimitFigures } from './card-limit.ts';
import { judgePhases, sendPhases, type PhaseFigures, type PhaseSender } from './phases.ts';
import { describeLoad, type LoadOptions } from './scenarios.ts';
import {
  type GuardCounts,
  type Reading,
  cpuMicrosOfEach,
  describeReadings,
  grownGuards,
  readGuards,
  startClock,
  watchSystem,
} from './readings.ts';
import { judgeHistory, recordLoad, type JudgedHistory, type RecordedLoad } from './history.ts';
import { acceptedOf, type FloodOrder, type K6Run, runK6 } from './k6.ts';

/** Where a run reports, what ends it, and the folder for k6 and the report, made when needed. */
export type LoadContext = { terminal: Terminal; signal: AbortSignal; folder: string };

type Target = { gateways: readonly string[]; apiKeys: Readonly<Record<string, string>> };

/** A backlog of some minutes is drained, and one that stands still is found by the audit. */
const drainMs = 600_000;
const readEveryMs = 2_000;

/**
 * Loads a system that is up and audits it: once before, so that what is found after is this run's.
 *
 * @throws CommandError when the system is not in balance before the first request.
 */
export async function loadSystem(
  system: System,
  context: LoadContext,
  options: LoadOptions,
): Promise<LoadReport> {
  const { terminal } = context;
  const { scenario, rate, seconds } = options;
  const rig = describeRig();
  const k6 = await lookForK6(context);
  const claims = await noteClaims(system, terminal);
  terminal.note('audit before');
  const before = await lookBefore(system);
  const recorded =
    options.history === undefined ? undefined : await recordLoad(options.history, system);
  const { since, second } = startClock();
  const watch = watchSystem(system, {
    everyMs: readEveryMs,
    onReading: (readings) => terminal.progress(`${scenario.name}: ${describeReadings(readings)}`),
  });
  try {
    const { gateways, partners } = system.endpoints;
    const apiKeys = Object.fromEntries(partners.map(({ id, apiKey }) => [id, apiKey]));
    const target = { gateways, apiKeys };
    const sendSome = (some: { rate: number; seconds?: number }) =>
      sendLoad(k6, target, { context, since, recorded, options: { ...options, ...some } });
    const drain = async () => void (await auditSystem(system, drainMs));
    terminal.note(`${scenario.name}: ${scenario.shows}`);
    const latency = scenario.providerLatency;
    const sendHere = () => sendAll(options, { terminal, sendSome, drain, second, seconds, system });
    // The real Stripe is as slow as it is.
    const { run, knee, phases, behind, cardLimit } = await (latency !== undefined &&
    hasSimulator(system)
      ? withProviderLatency(system, latency, sendHere)
      : sendHere());
    terminal.note('waiting until all of it is delivered, then audit');
    const audit = await auditSystem(system, drainMs);
    const drainedAfterSeconds = Math.round(second());
    await watch.stop();
    const after = { audit, guards: await readGuards(system) };
    const history = await recorded?.finish({ delivered: audit.settledDown });
    const { level } = scenario;
    const { readings } = watch;
    const checks = [
      ...judgeRun({ run, before, after }),
      ...judgeLevel({ level, rate, seconds, readings }),
      ...(phases ? judgePhases(phases) : []),
      ...(behind ? judgeBehind(behind) : []),
      ...(cardLimit ? judgeCardLimit(cardLimit) : []),
      ...(history ? judgeHistory(history, run) : []),
    ];
    const { moments, ...rest } = run;
    return {
      ok: checks.every(({ holds }) => holds),
      ...whatWasSent(options, knee),
      rig: { ...rig, k6: versionOf(k6), gateways: gateways.length },
      claims,
      run: rest,
      checks,
      ...(knee && { knee }),
      ...(phases && { phases }),
      ...(behind && { behind }),
      ...(cardLimit && { cardLimit }),
      guards: grownGuards(before.guards, after.guards),
      audit: { ok: audit.ok, counts: audit.counts, drift: audit.drift },
      drainedAfterSeconds,
      moments,
      readings,
      ...(history && { history }),
    };
  } finally {
    await watch.stop();
  }
}

/** Neither a rate nor a time where the scenario has none; of a search the rate of the knee. */
function whatWasSent(
  options: LoadOptions,
  knee: Knee | undefined,
): Pick<LoadReport, 'scenario' | 'sends' | 'rate' | 'seconds'> {
  const { scenario, rate, seconds } = options;
  const timed = scenario.fixed ? {} : { rate: knee?.rate ?? rate, seconds };
  return { scenario: scenario.name, sends: describeLoad(options), ...timed };
}

async function lookBefore(system: System) {
  const audit = await auditSystem(system, 60_000);
  if (!audit.ok) {
    throw new CommandError('the system is not in balance before the load: see npm run audit');
  }
  return { audit, guards: await readGuards(system) };
}

/** Loads a gateway somewhere else: nobody here can audit it, so only its answers are judged. */
export async function loadElsewhere(
  { gateway, token }: NonNullable<LoadOptions['elsewhere']>,
  context: LoadContext,
  options: LoadOptions,
): Promise<LoadReport> {
  const { scenario, seconds } = options;
  await requireGateway(gateway, token);
  const rig = describeRig();
  const k6 = await lookForK6(context);
  const target = { gateways: [gateway], apiKeys: { acme: token } };
  const { since, second } = startClock();
  const sendSome = (some: { rate: number }) =>
    sendLoad(k6, target, { context, options: { ...options, ...some }, since });
  context.terminal.note(`${scenario.name} at ${gateway}: ${scenario.shows}`);
  const drain = async () => undefined;
  const { terminal } = context;
  const progress = setInterval(() => {
    terminal.progress(`${scenario.name}: ${Math.round(second())} s`);
  }, readEveryMs);
  const { run, knee } = await sendAll(options, {
    terminal,
    sendSome,
    drain,
    second,
    seconds,
  }).finally(() => clearInterval(progress));
  const checks = judgeAnswers(run);
  const { moments, ...rest } = run;
  return {
    ok: checks.every(({ holds }) => holds),
    ...whatWasSent(options, knee),
    rig: { ...rig, k6: versionOf(k6), gateways: 1 },
    run: rest,
    checks,
    moments,
    readings: [],
    ...(knee && { knee }),
  };
}

type Sent = {
  run: K6Run;
  knee?: Knee;
  phases?: PhaseFigures[];
  behind?: BehindFigures[];
  cardLimit?: CardLimitFigures;
};

type Ways = Omit<Tries, 'send'> & PhaseSender & { system?: System };

async function sendAll(options: LoadOptions, ways: Ways): Promise<Sent> {
  const { scenario, rate } = options;
  const { system, sendSome } = ways;
  if (scenario.phases && system) return sendPhases(system, options, ways);
  if (scenario.withoutWorkers && system) return sendBehind(system, { ...ways, rate });
  const perSecond = scenario.providerLimit;
  if (perSecond !== undefined && system) {
    return sendBeyondLimit(system, { ...ways, rate, perSecond });
  }
  const send = (at: number) => sendSome({ rate: at });
  return scenario.searchesKnee ? searchKnee(rate, { ...ways, send }) : { run: await send(rate) };
}

function lookForK6({ terminal, signal }: LoadContext): Promise<K6> {
  return findK6({
    report: (line) => terminal.progress(line),
    note: (line) => terminal.note(line),
    signal,
  });
}

type Sending = {
  context: LoadContext;
  options: LoadOptions;
  since: number;
  recorded?: RecordedLoad | undefined;
};

function sendLoad(k6: K6, target: Target, sending: Sending): Promise<K6Run> {
  const { context, options, since, recorded } = sending;
  const { scenario, rate, seconds, duplicatesPercent } = options;
  mkdirSync(context.folder, { recursive: true });
  const run = newRun();
  const { folder, signal } = context;
  const order = { ...target, script: scenario.script, run, rate, seconds, folder, since };
  const console = recorded && { console: recorded.nextConsole(folder) };
  const duplicates = duplicatesPercent !== undefined && { duplicatesPercent };
  const flood = scenario.floods && { flood: floodIn(`${folder}/flood`, recorded) };
  return runK6(k6, { ...order, ...duplicates, ...console, ...flood }, signal);
}

function floodIn(folder: string, recorded: RecordedLoad | undefined): FloodOrder {
  mkdirSync(folder, { recursive: true });
  return { folder, ...(recorded && { console: recorded.nextConsole(folder) }) };
}

function versionOf({ version, from }: K6): string {
  return `${version} (${from})`;
}

/** What a run leaves in its folder as `report.json`, and prints under `--json`. */
export type LoadReport = {
  /** Every check holds. */
  ok: boolean;
  scenario: string;
  /** What was sent, in words. */
  sends: string;
  /** Absent where payments follow one another; of `ramp` that of the knee, 0 for none. */
  rate?: number;
  seconds?: number;
  rig: Rig & { k6: string; gateways: number };
  /** Whether they were warm before; absent where the system is elsewhere. */
  claims?: string;
  run: Omit<K6Run, 'moments'>;
  checks: readonly Check[];
  /** Of `ramp`. */
  knee?: Knee;
  /** Of a scenario that has some. */
  phases?: readonly PhaseFigures[];
  /** Of `behind`. */
  behind?: readonly BehindFigures[];
  /** Of `card-limit`. */
  cardLimit?: CardLimitFigures;
  /** What the guards caught during the run; absent where the system is elsewhere. */
  guards?: GuardCounts;
  /** Absent where the system is elsewhere. */
  audit?: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  /** From when k6 was started until the last stage was done and audited, seconds. */
  drainedAfterSeconds?: number;
  moments: K6Run['moments'];
  readings: readonly Reading[];
  /** With `--history`. */
  history?: JudgedHistory;
};

/** The report for a terminal; the page has the plots. */
export function renderText(report: LoadReport): string[] {
  const { rig, claims, scenario, sends, checks, run, guards, knee } = report;
  const { cpu, cores, node, commit, k6, gateways } = rig;
  const missed = run.thresholds.filter(({ holds }) => !holds);
  const [med, p99] = [ms(run.acceptMs.med), ms(run.acceptMs['p(99)'])];
  const of = run.latencyOf === undefined ? '' : `, ${run.latencyOf}`;
  return [
    style.faint(`${cpu}, ${cores} cores; Node ${node}; k6 ${k6}; commit ${commit}`),
    style.faint(
      `${scenario}: ${sends}, at ${count(gateways, 'gateway')}` +
        (claims === undefined ? '' : `; claims ${claims}`),
    ),
    '',
    describeAnswers(run),
    `to the 202: median ${med}, p99 ${p99}${of}`,
    ...(report.drainedAfterSeconds === undefined
      ? []
      : [`all delivered and audited ${report.drainedAfterSeconds} s after k6 was started`]),
    ...costOf(report),
    ...(knee === undefined ? [] : [kneeInWords(knee)]),
    ...(guards === undefined
      ? []
      : [
          `duplicates caught: ${guards.atClaims} by claims, ${guards.atLedger} by the ledger, ` +
            `${guards.atInbox} by the inbox`,
        ]),
    '',
    ...renderTable(
      [
        { head: '' },
        { head: 'expected', align: 'right' },
        { head: 'found', align: 'right' },
        { head: '' },
      ],
      checks.map(({ what, expected, found, holds }) => [
        what,
        expected,
        `${found}`,
        holds ? 'holds' : style.bad('DOES NOT HOLD'),
      ]),
    ),
    ...missed.map(({ metric, expression }) =>
      style.bad(`threshold missed: ${metric} ${expression}`),
    ),
    ...(report.history === undefined
      ? []
      : [style.faint(`history: ${report.history.file} (npm run prove -- check FILE)`)]),
  ];
}

/** What became of all that was asked for; what there is none of is left out. */
function describeAnswers(run: Pick<K6Run, 'tallies'>): string {
  const sum = (end: string) =>
    ['payments', 'refunds'].reduce(
      (total, kind) => total + (run.tallies[`${kind}_${end}`] ?? 0),
      0,
    );
  const others = [
    ['refused', 'refused for good'],
    ['too_much', 'refused as more than was left'],
    ['turned_away', 'turned away by 429 or 503'],
    ['unknown', 'without a clear answer'],
  ] as const;
  const ends = others.flatMap(([end, words]) => (sum(end) > 0 ? [`${sum(end)} ${words}`] : []));
  return [`${sum('asked')} asked for: ${acceptedOf(run)} accepted`, ...ends].join(', ');
}

function kneeInWords({ rate, steps }: Knee): string {
  if (rate > 0) return `the knee is at ${rate}/s`;
  return `no rate held, not even ${Math.min(...steps.map((step) => step.rate))}/s`;
}

/** What it took beside time, for each that was accepted, and of a history for each request. */
function costOf({ readings, run, history }: LoadReport): string[] {
  const accepted = acceptedOf(run);
  const services = Object.values(cpuMicrosOfEach(readings, accepted));
  if (services.length === 0) return [];
  const micros = (sum: number) => `${sum.toFixed(0)} µs`;
  const own = run.cpuSeconds === undefined ? 0 : (run.cpuSeconds * 1e6) / accepted;
  return [
    `CPU for each accepted, until all was audited: ${micros(services.reduce((sum, each) => sum + each, 0))} of all services` +
      (own > 0 ? `, ${micros(own)} of k6` : ''),
    ...(history === undefined
      ? []
      : [
          `the history has ${(history.bytes / history.judged.requests).toFixed(0)} bytes a request`,
        ]),
  ];
}

function ms(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}
