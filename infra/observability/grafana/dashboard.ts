/** A query of a panel and what its lines are called; `{{label}}` is a label's value. */
export type Query = { expr: string; legend: string };

/**
 * A panel. `unit` is one of Grafana's: `short`, `s`, `percentunit`, `reqps`, `bytes`,
 * `dtdurations`.
 */
export type Panel = {
  kind: 'timeseries' | 'stat' | 'table';
  title: string;
  /** What it shows, and what is to be expected. */
  description: string;
  unit: string;
  queries: readonly Query[];
  /** Of 24; a third of the width by default. */
  width?: number;
};

/** Panels under a headline. */
export type Row = { title: string; panels: readonly Panel[] };

/** Where else to look. */
export type Text = { title: string; description: string; markdown: string };

/** A search in the trace store, by a variable of the dashboard. */
export type TraceSearch = { title: string; description: string; traceQl: string };

/** A dashboard of ours. */
export type Dashboard = {
  /** Also its file's name. Links and bookmarks go by it, so it stays. */
  uid: string;
  title: string;
  description: string;
  rows: readonly Row[];
  /** A line that a person fills in, such as an id. */
  asks?: { name: string; label: string };
  texts?: readonly Text[];
  traces?: TraceSearch;
};

/** A panel of lines. */
export function lines(panel: Omit<Panel, 'kind'>): Panel {
  return { kind: 'timeseries', ...panel };
}

/** A panel of the newest values, as numbers. */
export function numbers(panel: Omit<Panel, 'kind'>): Panel {
  return { kind: 'stat', width: 6, ...panel };
}

/** A panel of the newest values, as rows. */
export function table(panel: Omit<Panel, 'kind'>): Panel {
  return { kind: 'table', width: 12, ...panel };
}

/** How many a second, by some labels. `only` are further matchers. */
export function rate(counter: string, { by, only = '' }: { by: string; only?: string }): Query {
  const matchers = ['service=~"$service"', 'instance=~"$instance"', only].filter((each) => each);
  return {
    expr: `sum by (${by}) (rate(${counter}{${matchers.join(',')}}[$__rate_interval]))`,
    legend: by
      .split(', ')
      .map((label) => `{{${label}}}`)
      .join(' '),
  };
}

/** The time that half, and the time that 99 of a hundred stay below, by one label if given. */
export function halfAndMost(
  histogram: string,
  { by, only = '' }: { by?: string; only?: string } = {},
): Query[] {
  const matchers = ['service=~"$service"', 'instance=~"$instance"', only].filter((each) => each);
  const labels = ['le', ...(by === undefined ? [] : [by])].join(', ');
  const of = `sum by (${labels}) (rate(${histogram}_bucket{${matchers.join(',')}}[$__rate_interval]))`;
  const whose = by === undefined ? '' : ` {{${by}}}`;
  return [
    { expr: `histogram_quantile(0.99, ${of})`, legend: `99 %${whose}` },
    { expr: `histogram_quantile(0.5, ${of})`, legend: `50 %${whose}` },
  ];
}

/** A gauge as the replicas report it, the greatest of them. */
export function greatest(gauge: string, legend: string, by?: string): Query {
  const expr = `max${by === undefined ? '' : ` by (${by})`} (${gauge}{instance=~"$instance"})`;
  return { expr, legend };
}
