import { parser } from '@prometheus-io/lezer-promql';
import type { Endpoints } from '@triplock/launcher';

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

/** Reads what replicas exposed in the text format (version 0.0.4). */
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
  const wanted = matchers.map(({ label, op, value }) => `${label}${op}"${value}"`).join(',');
  return `no series of ${metric} has {${wanted}}`;
}

/** As Prometheus has it, but that a label must be there at all. */
function holds(series: Series, { label, op, value }: Matcher): boolean {
  const is = series[label];
  if (is === undefined) return false;
  const matches = op.endsWith('~') ? new RegExp(`^(?:${value})$`).test(is) : is === value;
  return op.startsWith('!') ? !matches : matches;
}

/** One condition on a label. */
type Matcher = { label: string; op: '=' | '!=' | '=~' | '!~'; value: string };

/** What a query asks of one metric: its name, its conditions, and labels that it groups by. */
export type Selector = { metric: string; matchers: Matcher[]; groupedBy: string[] };

type Node = ReturnType<typeof parser.parse>['topNode'];

/**
 * Every selector of a PromQL query, by Prometheus' own grammar. Variables of Grafana stand for
 * anything.
 *
 * @throws when it is no PromQL.
 */
export function selectorsOf(query: string): Selector[] {
  const promQl = query
    .replaceAll('$__rate_interval', '5m')
    .replaceAll(/\$(service|instance)\b/g, '.*');
  const tree = parser.parse(promQl);
  const selectors: Selector[] = [];
  const text = (node: Node) => promQl.slice(node.from, node.to);
  tree.iterate({
    enter: ({ node }) => {
      if (node.type.isError) throw new Error(`no PromQL near ${node.from}: ${query}`);
      if (node.name !== 'VectorSelector') return;
      selectors.push({
        metric: text(node.getChild('Identifier')!),
        matchers: matchersOf(node, text),
        groupedBy: groupingOf(node, text),
      });
    },
  });
  return selectors;
}

function matchersOf(selector: Node, text: (node: Node) => string): Matcher[] {
  const all = selector.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
  return all.map((matcher) => ({
    label: text(matcher.getChild('LabelName')!),
    op: text(matcher.getChild('MatchOp')!) as Matcher['op'],
    // Strings of PromQL are escaped as those of JSON are, as far as ours go.
    value: JSON.parse(text(matcher.getChild('StringLiteral')!)) as string,
  }));
}

/** Labels that any aggregation around it keeps. */
function groupingOf(selector: Node, text: (node: Node) => string): string[] {
  const labels: string[] = [];
  for (let node = selector.parent; node !== null; node = node.parent) {
    const modifier = node.name === 'AggregateExpr' ? node.getChild('AggregateModifier') : null;
    if (!modifier?.getChild('By')) continue;
    const names = modifier.getChild('GroupingLabels')?.getChildren('LabelName') ?? [];
    labels.push(...names.map(text));
  }
  return labels;
}
