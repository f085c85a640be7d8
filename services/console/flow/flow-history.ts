import { hops } from '@triplock/pipeline';
import * as json from '../edge/schema.ts';
import {
  gaugeNames,
  type CounterName,
  type GaugeName,
  type ProcessFigures,
  counterNames,
  gauges,
} from '@triplock/inspect';

/** A process of the system, and where it can be asked how it is; nowhere while it has gone. */
export type KnownProcess = { name: string; url: string | undefined };

const told = json.orNull(json.figure);
const toldOf = <Name extends string>(names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, told])) as Record<Name, typeof told>;

const named = {
  name: json.text,
  /** Its name without the number of a replica. */
  service: json.text,
};
const processUp = json.component('ProcessUp', {
  ...named,
  is: json.only('up'),
  startedAt: json.time,
  cpuShare: told,
  memoryBytes: json.whole,
});
const processAway = json.component('ProcessAway', {
  ...named,
  is: json.only('away'),
  since: json.time,
  why: json.text,
});
/** How a process was at the last look. */
export type ProcessState = json.ValueOf<typeof processUp> | json.ValueOf<typeof processAway>;

const chartNames = ['accepted', 'read', 'published', 'delivered', 'caught', 'oldest'] as const;
export type ChartName = (typeof chartNames)[number];
const point = json.component('Point', { at: json.time, ...toldOf(chartNames) });
/** A quarter of a minute of the last hour; rates a second. */
export type Point = json.ValueOf<typeof point>;

/** The flow as programs get it. */
export const flowSchema = json.component('Flow', {
  at: json.time,
  /** From when on there is anything to show: a console that was started again begins anew. */
  since: json.time,
  /** Seconds between two looks now: 2 while somebody looks, else 15. */
  everySeconds: json.whole,
  perSecond: json.object(toldOf(counterNames)),
  /** In the last minute, or since this console began if that is later. */
  lastMinute: json.object(toldOf(counterNames)),
  gauges: json.object(toldOf(gaugeNames)),
  processes: json.listOf<ProcessState>({ oneOf: [processUp, processAway] }),
  /** The last hour, oldest first: a point for each quarter of a minute. */
  hour: json.listOf(point),
});
/**
 * Figures of one moment by the names of the hops; `null` where they are unknown: no process that
 * has them answers, or what was counted was counted before its reader went away.
 */
export type Flow = json.ValueOf<typeof flowSchema>;

const pointMs = 15_000;
const pointsMax = 240;
const minuteMs = 60_000;
/** A rate is taken over so long, so that it does not flicker. */
const rateMs = 10_000;

type Totals = Record<CounterName, number>;
/** All that was counted until a moment, since this console began. */
type Moment = { at: number; totals: Totals };
type Seen = { figures: ProcessFigures; at: number };

/** What the looks so far have left. */
export type History = {
  since: number;
  processes: readonly (KnownProcess & { state: ProcessState; seen: Seen | undefined })[];
  /** Of a bit more than a minute, oldest first. */
  moments: readonly Moment[];
  points: readonly Point[];
};

/** Nothing yet: every process is yet to be asked. */
export function newHistory(known: readonly KnownProcess[]): History {
  const since = Date.now();
  const processes = known.map((each) => {
    const away = { is: 'away', since: new Date(since), why: 'it was not asked yet' } as const;
    return { ...each, state: { ...namesOf(each), ...away }, seen: undefined };
  });
  const none = Object.fromEntries(counterNames.map((name) => [name, 0])) as Totals;
  return { since, processes, moments: [{ at: since, totals: none }], points: [] };
}

function namesOf({ name }: KnownProcess): Pick<ProcessState, 'name' | 'service'> {
  return { name, service: name.replace(/-\d+$/, '') };
}

/** What a process said of itself when it was asked, or why it did not. */
export type Answer = KnownProcess & { answer: ProcessFigures | string };

/**
 * Counts on by what each process says more than before, all of it where it began anew. One of the
 * same name at another place is another process.
 */
export function remember(
  { since, processes, moments, points }: History,
  answers: readonly Answer[],
  at: number,
): History {
  const totals = { ...moments.at(-1)!.totals };
  const now = answers.map(({ answer, ...known }) => {
    const before = processes.find(({ name }) => name === known.name);
    const url = known.url ?? before?.url;
    const seen = before?.url === url ? before?.seen : undefined;
    const names = namesOf(known);
    if (typeof answer === 'string') {
      const from = before?.state.is === 'away' ? before.state.since : new Date(at);
      const state = { ...names, is: 'away', since: from, why: answer } as const;
      return { name: known.name, url, state, seen };
    }
    addNew(totals, answer, seen?.figures);
    const state = stateOf(names, { figures: answer, at }, seen);
    return { name: known.name, url, state, seen: { figures: answer, at } };
  });
  const kept = moments.filter((each, nth) => {
    return each.at > at - minuteMs || (moments[nth + 1]?.at ?? at) > at - minuteMs;
  });
  const history = { since, processes: now, moments: [...kept, { at, totals }], points };
  return { ...history, points: withPoint(history) };
}

/** What a process counted before this console saw it first happened at no known time. */
function addNew(totals: Totals, now: ProcessFigures, before: ProcessFigures | undefined): void {
  if (before === undefined) return;
  const begunAnew = now.startedAt !== before.startedAt;
  for (const name of counterNames) {
    const from = begunAnew ? 0 : (before.counters[name] ?? 0);
    totals[name] += Math.max(0, (now.counters[name] ?? 0) - from);
  }
}

function stateOf(
  names: Pick<ProcessState, 'name' | 'service'>,
  now: Seen,
  before: Seen | undefined,
): ProcessState {
  const { startedAt, cpuSeconds, memoryBytes } = now.figures;
  const goesOn = before !== undefined && before.figures.startedAt === startedAt;
  const cpuShare = goesOn
    ? Math.max(0, cpuSeconds - before.figures.cpuSeconds) /
      Math.max(0.001, (now.at - before.at) / 1_000)
    : null;
  const started = new Date(startedAt * 1_000);
  return { ...names, is: 'up', startedAt: started, cpuShare, memoryBytes };
}

function withPoint(history: History): Point[] {
  const { at } = history.moments.at(-1)!;
  const slot = Math.floor(at / pointMs) * pointMs;
  const { perSecond, lastMinute, gauges } = figuresOf(history);
  const caught = together(lastMinute);
  const oldest = Math.max(...oldestOf(gauges).map((each) => each ?? -1));
  const { accepted, read, published, delivered } = perSecond;
  const point = {
    accepted,
    read,
    published,
    delivered,
    caught,
    oldest: oldest < 0 ? null : oldest,
  };
  const before = history.points.filter((each) => each.at.getTime() < slot);
  return [...before, { at: new Date(slot), ...point }].slice(-pointsMax);
}

/** How old the oldest of each hop is. */
function oldestOf(gauges: Flow['gauges']): (number | null)[] {
  const { unreadOldest, outboxOldest, webhooksOldest } = gauges;
  const inHand = hops.flatMap((hop) => ('oldest' in hop ? gauges[hop.oldest] : []));
  return [unreadOldest, outboxOldest, ...inHand, webhooksOldest];
}

function together(counted: Flow['lastMinute']): number | null {
  const { caughtByClaims, caughtByLedger, caughtByInbox } = counted;
  const told = [caughtByClaims, caughtByLedger, caughtByInbox].filter((each) => each !== null);
  return told.length === 0 ? null : told.reduce((sum, each) => sum + each, 0);
}

function figuresOf({
  processes,
  moments,
}: History): Pick<Flow, 'perSecond' | 'lastMinute' | 'gauges'> {
  const up = processes.flatMap(({ state, seen }) =>
    state.is === 'up' && seen ? seen.figures : [],
  );
  const last = moments.at(-1)!;
  const byCounter = (figure: (name: CounterName) => number) =>
    Object.fromEntries(
      counterNames.map((name) => {
        const isTold = up.some(({ counters }) => counters[name] !== undefined);
        return [name, isTold ? figure(name) : null];
      }),
    ) as Flow['perSecond'];
  const back = (ms: number) => moments.findLast((each) => each.at <= last.at - ms) ?? moments[0]!;
  const [forRate, minuteAgo] = [back(rateMs), back(minuteMs)];
  const seconds = Math.max(1, (last.at - forRate.at) / 1_000);
  const looked = lookedSince(processes, last.at);
  const gaugeFor = (name: GaugeName) => {
    const telling = unreadNames.includes(name)
      ? up.filter(({ gauges: told }) => (told.unreadLooked ?? 0) * 1_000 >= looked)
      : up;
    return [name, gaugeOf(telling, name) ?? null] as const;
  };
  return {
    perSecond: byCounter((name) => (last.totals[name] - forRate.totals[name]) / seconds),
    lastMinute: byCounter((name) => last.totals[name] - minuteAgo.totals[name]),
    gauges: Object.fromEntries(gaugeNames.map(gaugeFor)) as Flow['gauges'],
  };
}

/** What an auditor counts for the workers, every 15 s: a dead worker cannot say what it left. */
const unreadNames: readonly GaugeName[] = ['unread', 'unreadOldest'];
/** As old as four of its counts: then it cannot reach Kafka, and nobody knows. */
const countedAgoMsMax = 60_000;

/** When what is unread has to have been counted to be of now: after the last worker went away. */
function lookedSince(processes: History['processes'], at: number): number {
  const left = processes.flatMap(({ state }) =>
    state.service === 'ledger-worker' && state.is === 'away' ? state.since.getTime() : [],
  );
  return Math.max(at - countedAgoMsMax, ...left);
}

/** What there is to show. */
export function flowIn(history: History): Omit<Flow, 'everySeconds'> {
  return {
    at: new Date(history.moments.at(-1)!.at),
    since: new Date(history.since),
    ...figuresOf(history),
    processes: history.processes.map(({ state }) => state),
    hour: [...history.points],
  };
}

/** A gauge of several processes: the database's figures are told by each of its readers. */
function gaugeOf(all: readonly ProcessFigures[], name: GaugeName): number | undefined {
  const told = all.flatMap(({ gauges: found }) => found[name] ?? []);
  if (told.length === 0) return undefined;
  return gauges[name][1] === 'sum' ? told.reduce((sum, each) => sum + each, 0) : Math.max(...told);
}
