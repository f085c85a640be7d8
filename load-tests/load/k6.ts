import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { CommandError } from '@triplock/command';
import { type K6, yieldToOthers } from '@triplock/launcher';

/** What k6 is to do, and for whom. */
export type K6Order = {
  script: string;
  gateways: readonly string[];
  /** By partner. */
  apiKeys: Readonly<Record<string, string>>;
  /** Stands in every idempotency key. */
  run: string;
  rate: number;
  seconds: number;
  /** How many of 100 payments are sent again, where the script asks. */
  duplicatesPercent?: number;
  /** Exists; the summary, the recording and k6's own words are left there. */
  folder: string;
  /** Unix milliseconds that the moments of the run are counted from. */
  since: number;
  /** A file for what its users ask and are answered; without it they write nothing. */
  console?: string;
};

/** The part of a script that floods the system, beside another one. */
export type FloodOrder = Pick<K6Order, 'folder' | 'console'>;

/** What came of it. */
export type K6Run = {
  /** Every count by its name; one that nothing was counted for is not there. */
  tallies: Readonly<Record<string, number>>;
  acceptMs: Readonly<Record<'med' | 'p(95)' | 'p(99)' | 'max', number>>;
  /** Of which part of the run these are, where they are not of all of it. */
  latencyOf?: string;
  /** The p99 of the payments that a scenario tags with what was beside them. */
  besideMs: Readonly<Record<string, number>>;
  thresholds: readonly { metric: string; expression: string; holds: boolean }[];
  /** CPU that it used itself; absent where it ran in an image, or the system has no `/proc`. */
  cpuSeconds?: number;
  moments: readonly Moment[];
};

/** Payments and refunds that were answered with a 202. */
export function acceptedOf({ tallies }: Pick<K6Run, 'tallies'>): number {
  return (tallies['payments_accepted'] ?? 0) + (tallies['refunds_accepted'] ?? 0);
}

type Summary = {
  metrics: Record<
    string,
    {
      type: string;
      values: Record<string, number>;
      thresholds?: Record<string, { ok: boolean }>;
    }
  >;
};

// k6's own: thresholds that do not hold are a result, everything else is a failure.
const thresholdsFailed = 99;
/** What k6 draws of a run, as one page that needs nothing else; of a search, of its last run. */
export const k6Page = 'report.html';

/** Time for what is under way when it is interrupted. */
const graceMs = 5_000;

/**
 * Runs one script to its end; with a flood, both its parts at once. Who floods has, in life, a
 * machine of its own: here its k6 lets everybody else go first, and still sends what was asked for
 * or says what it dropped.
 *
 * @throws CommandError when k6 could not run it, with the end of what it printed; AbortError on
 * Ctrl-C.
 */
export async function runK6(
  k6: K6,
  { flood, ...order }: K6Order & { flood?: FloodOrder | undefined },
  signal: AbortSignal,
): Promise<K6Run> {
  const before = endedChildrenSeconds();
  const failing = new AbortController();
  const either = AbortSignal.any([signal, failing.signal]);
  // Nobody waits for what is beside a part that failed.
  const start = (part: K6Part) =>
    runPart(k6, part, either).catch((error: unknown) => {
      failing.abort(error);
      throw error;
    });
  const started = [start({ ...order, floods: false })];
  if (flood) started.push(start({ ...order, ...flood, floods: true }));
  await Promise.allSettled(started);
  const [own, flooding] = await Promise.all(started);
  const cpuSeconds = endedChildrenSeconds() - before;
  return {
    ...(flooding === undefined ? own! : besideFlood(own!, flooding)),
    ...(k6.from !== 'image' && cpuSeconds > 0 && { cpuSeconds }),
  };
}

/** What both counted and promise. Latencies and moments are of who is beside the flood. */
function besideFlood(own: K6Run, flood: K6Run): K6Run {
  const thresholds = [...own.thresholds, ...flood.thresholds];
  const latencyOf = 'of who is beside the flood';
  return { ...own, tallies: addTallies([own, flood]), thresholds, latencyOf };
}

/** What several counted, together. */
export function addTallies(runs: readonly Pick<K6Run, 'tallies'>[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { tallies } of runs) {
    for (const [name, count] of Object.entries(tallies)) sums[name] = (sums[name] ?? 0) + count;
  }
  return sums;
}

type K6Part = K6Order & { floods: boolean };

async function runPart(k6: K6, order: K6Part, signal: AbortSignal): Promise<K6Run> {
  const { folder } = order;
  const scripts = resolve(import.meta.dirname, '../k6');
  const files = {
    summary: join(folder, 'k6-summary.json'),
    recording: join(folder, 'k6-recording.ndjson'),
    log: join(folder, 'k6.log'),
  };
  const settings = {
    GATEWAYS: order.gateways.map((url) => k6.seen(url)).join(','),
    API_KEYS: JSON.stringify(order.apiKeys),
    RUN: order.run,
    HISTORY: `${order.console !== undefined}`,
    RATE: `${order.rate}`,
    SECONDS: `${order.seconds}`,
    FLOODS: `${order.floods}`,
    DUPLICATES: `${order.duplicatesPercent ?? ''}`,
    SUMMARY_FILE: files.summary,
    K6_NO_USAGE_REPORT: 'true',
    K6_WEB_DASHBOARD: 'true',
    // No page is served; what it would show is written down, and costs next to nothing.
    K6_WEB_DASHBOARD_PORT: '-1',
    K6_WEB_DASHBOARD_EXPORT: join(folder, k6Page),
    K6_WEB_DASHBOARD_PERIOD: `${Math.max(1, Math.ceil(order.seconds / 120))}s`,
    K6_WEB_DASHBOARD_RECORD: files.recording,
  };
  const mounted = resolve(import.meta.dirname, '../..');
  const { file, args } = k6.command({ folder: mounted, variables: Object.keys(settings) });
  // A listener on a signal that is aborted already would never be called.
  signal.throwIfAborted();
  const log = openSync(files.log, 'w');
  const written =
    order.console === undefined ? [] : ['--console-output', order.console, '--log-format', 'raw'];
  const words = ['run', '--quiet', ...written, join(scripts, order.script)];
  try {
    const child = spawn(file, [...args, ...words], {
      stdio: ['ignore', log, log],
      env: { ...process.env, ...settings },
      // Only a session of its own can give way to others, and a terminal's Ctrl-C is passed on.
      detached: order.floods,
    });
    if (order.floods && child.pid !== undefined) await yieldToOthers({ pid: child.pid });
    const stop = () => {
      child.kill('SIGINT');
      setTimeout(() => child.kill('SIGKILL'), graceMs).unref();
    };
    signal.addEventListener('abort', stop);
    const code = await new Promise<number>((fulfil, reject) => {
      child.once('error', reject);
      child.once('exit', (exit, by) => fulfil(by === null ? exit! : -1));
    }).finally(() => signal.removeEventListener('abort', stop));
    signal.throwIfAborted();
    if (code !== 0 && code !== thresholdsFailed) throw failed(code, files.log);
  } finally {
    closeSync(log);
  }
  return readRun(files, order.since);
}

// Linux counts in ticks of 10 ms wherever Node runs (USER_HZ, proc_pid_stat(5)).
const ticksPerSecond = 100;

/** CPU of all processes that this one has started and seen end; 0 on a system without `/proc`. */
function endedChildrenSeconds(): number {
  if (!existsSync('/proc/self/stat')) return 0;
  const stat = readFileSync('/proc/self/stat', 'utf8');
  // The name may hold spaces and brackets; behind it cutime and cstime are the 14th and 15th.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[13]) + Number(fields[14])) / ticksPerSecond;
}

function failed(code: number, log: string): CommandError {
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n').slice(-10);
  return new CommandError(
    [`k6 ended with ${code}`, ...lines.map((line) => `  ${line}`), `  log: ${log}`].join('\n'),
  );
}

function readRun(files: { summary: string; recording: string }, since: number): K6Run {
  const { metrics } = JSON.parse(readFileSync(files.summary, 'utf8')) as Summary;
  const counters = Object.entries(metrics).filter(([, { type }]) => type === 'counter');
  return {
    tallies: Object.fromEntries(counters.map(([name, { values }]) => [name, values['count'] ?? 0])),
    acceptMs: {
      med: 0,
      'p(95)': 0,
      'p(99)': 0,
      max: 0,
      ...metrics['accept_ms']?.values,
    },
    besideMs: Object.fromEntries(
      Object.entries(metrics).flatMap(([metric, { values }]) => {
        const [, beside] = /^accept_ms\{beside:(\w+)\}$/.exec(metric) ?? [];
        return beside === undefined ? [] : [[beside, values['p(99)'] ?? 0] as const];
      }),
    ),
    thresholds: Object.entries(metrics).flatMap(([metric, { thresholds = {} }]) =>
      Object.entries(thresholds).map(([expression, { ok }]) => ({ metric, expression, holds: ok })),
    ),
    moments: existsSync(files.recording)
      ? readRecording(readFileSync(files.recording, 'utf8'), since)
      : [],
  };
}

/** One moment of a run as k6 saw it: rates over the last period, latencies in milliseconds. */
export type Moment = {
  /** Since the time that was given, so that all stands on one axis with the system's readings. */
  second: number;
  requestsPerSecond: number;
  acceptedPerSecond: number;
  p50Ms: number;
  p95Ms: number;
  p99Ms: number;
};

type Line =
  | { event: 'param'; data: { aggregates: Record<string, string[]> } }
  | { event: 'metric'; data: Record<string, { type: string }> }
  | { event: 'start' | 'stop' | 'cumulative' | 'snapshot'; data: number[][] };

/**
 * Reads what k6's dashboard recorded, one JSON object a line: metrics are declared as they appear,
 * and a snapshot has the aggregates of all that are known by then, in the order of their names.
 */
export function readRecording(text: string, since: number): Moment[] {
  const types = new Map<string, string>();
  let aggregates: Record<string, string[]> = {};
  const moments: Moment[] = [];
  for (const line of text.split('\n').filter(Boolean)) {
    const { event, data } = JSON.parse(line) as Line;
    if (event === 'param') aggregates = data.aggregates;
    if (event === 'metric') {
      for (const [name, { type }] of Object.entries(data)) types.set(name, type);
    }
    if (event !== 'snapshot') continue;
    const names = [...types.keys()].sort();
    const valueOf = (name: string, aggregate: string) => {
      const column = aggregates[types.get(name) ?? '']?.indexOf(aggregate) ?? -1;
      return data[names.indexOf(name)]?.[column] ?? 0;
    };
    moments.push({
      second: Math.round((valueOf('time', 'value') - since) / 100) / 10,
      requestsPerSecond: valueOf('http_reqs', 'rate'),
      acceptedPerSecond: valueOf('payments_accepted', 'rate') + valueOf('refunds_accepted', 'rate'),
      p50Ms: valueOf('http_req_duration', 'med'),
      p95Ms: valueOf('http_req_duration', 'p(95)'),
      p99Ms: valueOf('http_req_duration', 'p(99)'),
    });
  }
  return moments;
}
