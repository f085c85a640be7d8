import { countersOfServices, gaugesOfServices, type CounterSource } from '@triplock/pipeline';

/** What each counter of the pipeline counts: a metric, and of its values one, or all of them. */
export const counters = {
  ...countersOfServices,
  caughtByClaims: [['triplock_duplicates_caught_total', 'claims']],
  caughtByLedger: [['triplock_duplicates_caught_total', 'ledger']],
  caughtByInbox: [['triplock_duplicates_caught_total', 'inbox']],
} as const satisfies Record<string, readonly CounterSource[]>;

/** What each gauge shows, and what several replicas that show it have together. */
export const gauges = gaugesOfServices;

export type CounterName = keyof typeof counters;
export type GaugeName = keyof typeof gauges;
export const counterNames = Object.keys(counters) as CounterName[];
export const gaugeNames = Object.keys(gauges) as GaugeName[];

/** What one process told of itself: only figures that it has. */
export type ProcessFigures = {
  counters: Partial<Record<CounterName, number>>;
  gauges: Partial<Record<GaugeName, number>>;
  /** Seconds since 1970: another one means that its counters began anew. */
  startedAt: number;
  cpuSeconds: number;
  memoryBytes: number;
};

type Take = (figures: ProcessFigures, value: number, labels: string) => void;

/** By a metric's name what it is, so that one look at each line is enough. */
const wanted = new Map<string, Take>([
  ['process_start_time_seconds', (figures, value) => (figures.startedAt = value)],
  ['process_cpu_seconds_total', (figures, value) => (figures.cpuSeconds = value)],
  ['process_resident_memory_bytes', (figures, value) => (figures.memoryBytes = value)],
]);
for (const name of counterNames) {
  for (const [metric, only] of counters[name] as readonly CounterSource[]) {
    const before = wanted.get(metric);
    wanted.set(metric, (figures, value, labels) => {
      before?.(figures, value, labels);
      if (only !== undefined && !labels.includes(`"${only}"`)) return;
      figures.counters[name] = (figures.counters[name] ?? 0) + value;
    });
  }
}
for (const name of gaugeNames) {
  const [metric] = gauges[name];
  wanted.set(metric, ({ gauges: found }, value) => {
    // Of a gauge by check, all checks together.
    found[name] = (found[name] ?? 0) + value;
  });
}

const line = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)/;

/** What of Prometheus' text form the console shows; whatever else is in it is passed over. */
export function readFigures(text: string): ProcessFigures {
  const figures: ProcessFigures = {
    counters: {},
    gauges: {},
    startedAt: 0,
    cpuSeconds: 0,
    memoryBytes: 0,
  };
  for (const each of text.split('\n')) {
    const [, metric = '', labels = '', value] = line.exec(each) ?? [];
    const take = wanted.get(metric);
    if (take !== undefined && Number.isFinite(Number(value))) take(figures, Number(value), labels);
  }
  return figures;
}

/** How long a process may take to tell. One that stands still does not hold up the others. */
const tellWithinMs = 1_500;

const names = [...wanted.keys()].map((name) => `name[]=${name}`);
/** Nothing but what is shown is asked for: a process puts together no more than that. */
export const figuresPath = `/metrics?${names.join('&')}`;

/** Asks a process at its operators' port. @throws when it does not tell in time. */
export async function askFigures(url: string): Promise<ProcessFigures> {
  const answer = await fetch(new URL(figuresPath, url), {
    signal: AbortSignal.timeout(tellWithinMs),
  });
  if (!answer.ok) throw new Error(`it answered ${answer.status}`);
  return readFigures(await answer.text());
}
