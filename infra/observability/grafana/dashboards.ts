import { join } from 'node:path';
import type { Dashboard, Panel, Row, Text, TraceSearch } from './dashboard.ts';
import { guard1 } from './guard-1-claims.ts';
import { guard2 } from './guard-2-ledger.ts';
import { guard3 } from './guard-3-outbox-and-inbox.ts';
import { overview } from './overview.ts';
import { whereIsMyPayment } from './where-is-my-payment.ts';

/** Every dashboard. */
export const dashboards: readonly Dashboard[] = [
  overview,
  guard1,
  guard2,
  guard3,
  whereIsMyPayment,
];

/** The files that Grafana reads, and what belongs into them. */
export function dashboardFiles(): { path: string; text: string }[] {
  return dashboards.map((dashboard) => ({
    path: join(import.meta.dirname, 'dashboards', `${dashboard.uid.replace('triplock-', '')}.json`),
    text: `${JSON.stringify(renderDashboard(dashboard), null, 2)}\n`,
  }));
}

/** The uids of infra/observability/grafana/provisioning/datasources. */
const prometheus = { type: 'prometheus', uid: 'prometheus' };
const tempo = { type: 'tempo', uid: 'tempo' };

const rowWidth = 24;
const panelHeight = { timeseries: 8, stat: 4, table: 8, text: 6, traces: 8 } as const;

type Place = { x: number; y: number; w: number; h: number };

/** Hands out places from left to right, and a new line when one is full. */
function openGrid() {
  let [x, y, tallest] = [0, 0, 0];
  const endLine = () => ([x, y, tallest] = [0, y + tallest, 0]);
  return (w: number, h: number): Place => {
    if (x + w > rowWidth) endLine();
    const place = { x, y, w, h };
    [x, tallest] = [x + w, Math.max(tallest, h)];
    return place;
  };
}

type Grid = ReturnType<typeof openGrid>;

/** A dashboard in the form in which Grafana reads its files. */
function renderDashboard(dashboard: Dashboard): object {
  const { uid, title, description, asks, texts = [], traces, rows } = dashboard;
  const place = openGrid();
  const panels = [
    ...texts.map((text) => renderText(text, place)),
    ...(traces === undefined ? [] : [renderTraces(traces, place)]),
    ...rows.flatMap((row) => renderRow(row, place)),
  ];
  return {
    uid,
    title,
    description,
    tags: ['triplock'],
    schemaVersion: 41,
    version: 1,
    editable: false,
    time: { from: 'now-30m', to: 'now' },
    refresh: '10s',
    links: [
      {
        type: 'dashboards',
        title: 'Triplock',
        tags: ['triplock'],
        keepTime: true,
        asDropdown: true,
      },
    ],
    templating: {
      list: [
        ...(asks === undefined
          ? []
          : [{ type: 'textbox', ...asks, query: '', current: { text: '', value: '' } }]),
        variable('service', 'Service', 'label_values(up{job="triplock"}, service)'),
        variable(
          'instance',
          'Replica',
          'label_values(up{job="triplock",service=~"$service"}, instance)',
        ),
      ],
    },
    panels: panels.map((panel, n) => ({ id: n + 1, ...panel })),
  };
}

/** Its first value stands for all, also for replicas that come later. */
function variable(name: string, label: string, query: string) {
  const every = { includeAll: true, allValue: '.*', multi: true };
  return {
    type: 'query',
    name,
    label,
    query,
    refresh: 2,
    sort: 1,
    datasource: prometheus,
    ...every,
    current: { text: 'All', value: '$__all' },
  };
}

function renderRow({ title, panels }: Row, place: Grid): object[] {
  const headline = {
    type: 'row',
    title,
    collapsed: false,
    panels: [],
    gridPos: place(rowWidth, 1),
  };
  return [headline, ...panels.map((panel) => renderPanel(panel, place))];
}

function renderPanel(panel: Panel, place: Grid): object {
  const { kind, title, description, unit, queries, width = 8 } = panel;
  return {
    type: kind,
    title,
    description,
    datasource: prometheus,
    gridPos: place(width, panelHeight[kind]),
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    options: options[kind],
    targets: queries.map(({ expr, legend }, n) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + n),
      datasource: prometheus,
      expr,
      legendFormat: legend,
      ...(kind === 'timeseries' ? { range: true } : { instant: true }),
    })),
    // An instant query is a frame for each series; as a table they are rows with their names.
    ...(kind === 'table' && {
      transformations: [{ id: 'reduce', options: { reducers: ['lastNotNull'] } }],
    }),
  };
}

const options = {
  timeseries: {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
    tooltip: { mode: 'multi', sort: 'desc' },
  },
  stat: {
    reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
    colorMode: 'none',
    graphMode: 'area',
    textMode: 'auto',
  },
  table: { showHeader: true, cellHeight: 'sm' },
} as const;

function renderText({ title, description, markdown }: Text, place: Grid): object {
  const gridPos = place(12, panelHeight.text);
  return {
    type: 'text',
    title,
    description,
    gridPos,
    options: { mode: 'markdown', content: markdown },
  };
}

function renderTraces({ title, description, traceQl }: TraceSearch, place: Grid): object {
  const query = { queryType: 'traceql', query: traceQl, limit: 20, tableType: 'traces' };
  return {
    type: 'table',
    title,
    description,
    datasource: tempo,
    gridPos: place(12, panelHeight.traces),
    targets: [{ refId: 'A', datasource: tempo, ...query }],
  };
}
