import type { AuditReport } from '@triplock/inspect';
import type { Terminal } from '@triplock/command';
import { waiting, type GuardCounts, type Reading } from './readings.ts';
import { addTallies, type K6Run } from './k6.ts';

/** One comparison between what the partners know and what the system says. */
export type Check = { what: string; expected: string; found: number; holds: boolean };

/** What the partners counted, and k6's own judgement. */
type PartnersCount = Pick<K6Run, 'tallies' | 'thresholds' | 'besideMs'>;

/** What a run is judged by: both sides, before and after. */
export type Evidence = {
  run: PartnersCount;
  before: { audit: AuditReport; guards: GuardCounts };
  after: { audit: AuditReport; guards: GuardCounts };
};

/**
 * Compares the partners' own count with the system's. What never got a clear answer may
 * have been accepted or not, so it widens what is expected and is nothing to be forgiven elsewhere.
 *
 * Holds only for a system that nobody else uses meanwhile.
 */
export function judgeRun({ run, before, after }: Evidence): Check[] {
  const tally = (name: string) => run.tallies[name] ?? 0;
  const grown = (name: keyof AuditReport['counts']) =>
    after.audit.counts[name] - before.audit.counts[name];
  const clear = tally('payments_accepted') + tally('refunds_accepted');
  const unclear = tally('payments_unknown') + tally('refunds_unknown');
  const accepted = grown('accepted');
  const paid = amountOf(after.audit) - amountOf(before.audit);
  const caught = after.guards.atClaims - before.guards.atClaims;
  const counted = tally('answers_replayed') + tally('answers_in_flight');
  return [
    between('accepted, in the topic', accepted, [clear, clear + unclear]),
    equal('posted in the ledger', grown('ledger'), accepted),
    equal('published', grown('published'), accepted),
    equal('delivered', grown('deliveries'), accepted),
    between('their payments, in minor units', paid, [
      tally('payments_accepted_amount'),
      tally('payments_accepted_amount') + tally('payments_unknown_amount'),
    ]),
    // A request without an answer was counted by the gateway alone.
    between('replays and 409s that the gateways counted', caught, [
      counted,
      counted + tally('requests_unanswered'),
    ]),
    ...judgeAnswers(run),
    equal('checks of the audit that found drift', after.audit.drift.length, 0),
  ];
}

/** What the partners can judge by themselves. */
export function judgeAnswers({ tallies, thresholds, besideMs }: PartnersCount): Check[] {
  const tally = (name: string) => tallies[name] ?? 0;
  const sum = (...names: string[]) => names.reduce((total, name) => total + tally(name), 0);
  const ended = ['accepted', 'unknown', 'refused', 'turned_away'];
  return [
    // k6 cuts off what is under way for too long, and nothing else would tell of it.
    equal(
      'payments asked for that came to an end',
      sum(...ended.map((end) => `payments_${end}`)),
      tally('payments_asked'),
    ),
    equal(
      'refunds asked for that came to an end',
      sum(...ended.map((end) => `refunds_${end}`), 'refunds_too_much'),
      tally('refunds_asked'),
    ),
    equal(
      'duplicates caught, passed on to the ledger, or unanswered',
      sum('duplicates_caught', 'duplicates_passed', 'duplicates_unanswered'),
      tally('duplicates_sent'),
    ),
    equal('duplicates answered wrongly', tally('duplicates_altered'), 0),
    equal('other bodies refused', tally('other_bodies_refused'), tally('other_bodies_sent')),
    equal('thresholds missed', thresholds.filter(({ holds }) => !holds).length, 0),
    ...judgeBeside(besideMs),
  ];
}

/** A request must wait for what is under way when it comes, whoever's that is. */
const besideFlood = { times: 3, orMs: 250 };

/** Whether a partner that is beside a flood waits much longer than in the same run without it. */
function judgeBeside({ nobody, flood }: K6Run['besideMs']): Check[] {
  if (nobody === undefined || flood === undefined) return [];
  const limit = Math.max(nobody * besideFlood.times, besideFlood.orMs);
  const what = `p99 of the others beside the flood, ms (${Math.round(nobody)} without it)`;
  return [atMost(what, flood, limit)];
}

function amountOf({ sums }: AuditReport): number {
  return sums.reduce((total, { accepted }) => total + Number(accepted.amount), 0);
}

function equal(what: string, found: number, expected: number): Check {
  return { what, expected: `${expected}`, found, holds: found === expected };
}

function between(what: string, found: number, [least, most]: readonly [number, number]): Check {
  const expected = least === most ? `${least}` : `${least} to ${most}`;
  return { what, expected, found, holds: found >= least && found <= most };
}

/** What was asked for, and what was read meanwhile. */
export type LevelEvidence = {
  /** What waits, and memory: stays where it is all the time, or returns to where it was. */
  level: 'stays' | 'returns' | undefined;
  rate: number;
  seconds: number;
  readings: readonly Reading[];
};

/** A webhook may be read as delivered two readings later than its payment as accepted. */
const slackSeconds = 4;
/** Before that a process is still taking the memory that it will work with. */
const memoryFromSeconds = 600;
const memoryGrowth = 1.25;

/**
 * Whether what waits, and on a long run the memory of every service, stays where it was, or is back
 * there at the end. What comes after the load is not looked at: everything is delivered then.
 */
export function judgeLevel({ level, rate, seconds, readings }: LevelEvidence): Check[] {
  if (level === undefined) return [];
  const part = (from: number, to: number) =>
    readings.filter(({ second }) => second >= from * seconds && second <= to * seconds);
  const [before, after] =
    level === 'stays' ? [part(0.25, 0.5), part(0.75, 1)] : [part(0, 0.25), part(0.9, 1)];
  // A load of a few seconds is over between two readings, and shows no level.
  if (before.length === 0 || after.length === 0) return [];
  const waits = (some: readonly Reading[]) =>
    median(some.map((each) => waiting(readings[0]!, each, ['accepted', 'delivered'])));
  const checks = [
    atMost('waiting at the end of the load', waits(after), waits(before) + rate * slackSeconds),
  ];
  if (level === 'returns' || seconds < memoryFromSeconds) return checks;
  const memory = Object.keys(after.at(-1)!.rssMiB).map((service) => {
    const takes = (some: readonly Reading[]) =>
      median(some.map(({ rssMiB }) => rssMiB[service] ?? 0));
    return atMost(`MiB of ${service} at the end`, takes(after), takes(before) * memoryGrowth);
  });
  return [...checks, ...memory];
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

export function atMost(what: string, found: number, limit: number): Check {
  const most = Math.round(limit);
  return { what, expected: `at most ${most}`, found: Math.round(found), holds: found <= most };
}

/** One rate, sent; and the wait until nothing of it is left to do. */
export type Tries = {
  terminal: Terminal;
  send(rate: number): Promise<K6Run>;
  drain(): Promise<void>;
  /** Seconds since the system's first reading. */
  second(): number;
  /** How long each rate is sent. */
  seconds: number;
};

/**
 * Sends rate after rate until the knee is found. What comes back is judged as one run: all counts
 * and moments together, with the thresholds and the latencies of the knee.
 */
export async function searchKnee(
  first: number,
  { terminal, send, drain, second, seconds }: Tries,
): Promise<{ run: K6Run; knee: Knee }> {
  const runs: (K6Run & { rate: number })[] = [];
  const knee = await findKnee(first, async (rate): Promise<Step> => {
    terminal.note(`trying ${rate}/s`);
    const from = second();
    const run = await send(rate);
    const to = second();
    await drain();
    runs.push({ ...run, rate });
    const step = stepOf({ rate, seconds, run, sent: [from, to] });
    const drained = Math.round(second() - to);
    const result = step.holds ? 'holds' : `does not hold (${step.missed.join(', ')})`;
    terminal.note(
      `${rate}/s ${result}: p99 ${step.p99Ms.toFixed(0)} ms, drained ${drained} s later`,
    );
    return step;
  });
  const best = runs.findLast(({ rate }) => rate === knee.rate) ?? runs[0]!;
  const moments = runs.flatMap((each) => each.moments);
  return { knee, run: { ...together(runs, best), moments, latencyOf: `at ${best.rate}/s` } };
}

/** Of all runs what was counted and what they cost; of one its latencies and thresholds. */
export function together(runs: readonly K6Run[], one: K6Run): K6Run {
  const { cpuSeconds: _, ...rest } = one;
  const cpuSeconds = runs.reduce((sum, run) => sum + (run.cpuSeconds ?? NaN), 0);
  return {
    ...rest,
    tallies: addTallies(runs),
    ...(!Number.isNaN(cpuSeconds) && { cpuSeconds }),
  };
}

type Tried = { rate: number; seconds: number; run: K6Run; sent: Step['seconds'] };

function stepOf({ rate, seconds, run, sent }: Tried): Step {
  const missed = run.thresholds.filter(({ holds }) => !holds);
  return {
    rate,
    holds: missed.length === 0,
    missed: missed.map(({ metric, expression }) => `${metric} ${expression}`),
    p99Ms: run.acceptMs['p(99)'],
    // Of the time in which they were sent: k6 takes a second to start, and waits for late answers.
    acceptedPerSecond: (run.tallies['payments_accepted'] ?? 0) / seconds,
    seconds: sent,
  };
}

/** What one rate came to. */
export type Step = {
  rate: number;
  holds: boolean;
  /** What did not hold, in k6's words. */
  missed: readonly string[];
  p99Ms: number;
  acceptedPerSecond: number;
  /** When it was sent, in seconds since the system's first reading. */
  seconds: readonly [from: number, to: number];
};

/** The highest rate that held, and every step on the way to it. */
export type Knee = { rate: number; steps: readonly Step[] };

// Finer than that, two runs on one machine differ by more than two rates do.
const precision = 0.1;
const ratesMax = 20_000;

/**
 * Finds the highest rate that holds: half as much again until one does not, then the middle between
 * the highest that held and the lowest that did not, until they are within a tenth. A rate that
 * does not hold is tried once more, because machines stutter. 0 when not even the first one held.
 */
export async function findKnee(
  first: number,
  tryRate: (rate: number) => Promise<Step>,
): Promise<Knee> {
  const steps: Step[] = [];
  const holds = async (rate: number) => {
    for (const _ of ['once', 'once more']) {
      const step = await tryRate(rate);
      steps.push(step);
      if (step.holds) return true;
    }
    return false;
  };
  let held = 0;
  let broke = first;
  while (broke <= ratesMax && (await holds(broke))) {
    held = broke;
    broke = Math.ceil(broke * 1.5);
  }
  while (held > 0 && broke - held > Math.max(1, held * precision)) {
    const middle = Math.round((held + broke) / 2);
    if (await holds(middle)) held = middle;
    else broke = middle;
  }
  return { rate: held, steps };
}
