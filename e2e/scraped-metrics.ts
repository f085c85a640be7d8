import type { Endpoints } from '@triplock/launcher';
import type { Matcher, Selector } from './query-selectors.ts';

/** A series as a scrape has it, with the labels that Prometheus adds. */
type Series = Readonly<Record<string, string>>;

/** Every series of a scrape, by the name that a query uses. */
export type Scrape = {
  series: ReadonlyMap<string, readonly Series[]>;
  /** What each metric says of itself, by its name without what a histogram adds to it. */
  helps: ReadonlyMap<string, string>;
};

/** Scrapes every replica of every service, as Prometheus does. */
export async function scrapeSystem({ services }: Endpoints): Promise<Scrape> {
  const texts = await Promise.all(
    services.map(async ({ metrics }) => {
      const answer = await fetch(metrics);
      if (!answer.ok) throw new Error(`${metrics} answers ${answer.status}`);
      return { text: await answer.text(), instance: new URL(metrics).host };
    }),
  );
  return readScrape(texts);
}

/** Reads what replicas told in the text format (version 0.0.4). */
export function readScrape(texts: readonly { text: string; instance: string }[]): Scrape {
  const series = new Map<string, Series[]>();
  const helps = new Map<string, string>();
  for (const { text, instance } of texts) {
    for (const line of text.split('\n')) {
      const [, metric, help] = /^# HELP (\w+) (.*)$/.exec(line) ?? [];
      if (metric !== undefined && help !== undefined) helps.set(metric, help);
      const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
      if (name === undefined) continue;
      const own = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)];
      const all = Object.fromEntries(own.map(([, label, value]) => [label, value]));
      const known = series.get(name) ?? [];
      series.set(name, [...known, { job: 'triplock', instance, ...all }]);
    }
  }
  return { series, helps };
}

/** Why a selector would never find anything, or nothing when it finds a series. */
export function whyNothing(
  { series }: Scrape,
  { metric, matchers, groupedBy }: Selector,
): string | undefined {
  const all = series.get(metric);
  if (all === undefined) return `no service has ${metric}`;
  const missing = groupedBy.find((label) => all.every((each) => each[label] === undefined));
  if (missing !== undefined) return `${metric} has no label ${missing}`;
  if (all.some((each) => matchers.every((matcher) => holds(each, matcher)))) return undefined;
  const said = matchers.map(({ label, op, value }) => `${label}${op}"${value}"`).join(',');
  return `no series of ${metric} has {${said}}`;
}

/** As Prometheus has it, but that a label must be there at all. */
function holds(series: Series, { label, op, value }: Matcher): boolean {
  const is = series[label];
  if (is === undefined) return false;
  const matches = op.endsWith('~') ? new RegExp(`^(?:${value})$`).test(is) : is === value;
  return op.startsWith('!') ? !matches : matches;
}
