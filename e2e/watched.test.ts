import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { declarations } from '@triplock/launcher';
import { eventually } from '@triplock/testing';
import { parse } from 'yaml';
import {
  readScrape,
  type Scrape,
  scrapeSystem,
  type Selector,
  selectorsOf,
  whyNothing,
} from './test/metrics.ts';
import { onTheSystem } from './test/system.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const read = (path: string) => readFileSync(`${root}${path}`, 'utf8');

type Rule = { alert?: string; record?: string; expr: string };
type Asked = { where: string; query: string };

/** What Prometheus makes itself. */
const ofPrometheus = readScrape([
  {
    instance: 'prometheus',
    text: declarations
      .map(({ name: service }) => `up{service="${service}"} 1`)
      .concat('ALERTS{alertname="any",alertstate="firing"} 1')
      .join('\n'),
  },
]);

const on = onTheSystem();

test('every query of a dashboard, an alert or a rule finds series in the running system', async () => {
  const rules = recordedAndAlerted();
  const asked = [...rules.queries, ...dashboardQueries()];
  assert.ok(asked.length > 150, `${asked.length} queries`);
  // An auditor tells of the first audit once that is over.
  const wrong = await eventually(async () => {
    const scrape = await scrapeSystem(on.system);
    const found = asked.flatMap((each) => problemsOf(each, { scrape, recorded: rules.recorded }));
    return (found.length === 0 || scrape.series.has('triplock_audit_drift')) && found;
  });
  assert.deepEqual(wrong, []);
});

test('docs/observability.md describes every metric of ours, in its own words, and no other', async () => {
  const scrape = await eventually(async () => {
    const seen = await scrapeSystem(on.system);
    return seen.series.has('triplock_audit_drift') && seen;
  });
  const ours = [...scrape.helps].filter(([name]) => name.startsWith('triplock_'));
  const row = /^\| `(triplock_\w+)` +\|[^|]*\| (.*?) *\|$/gm;
  const documented = [...read('docs/observability.md').matchAll(row)].map(([, name, help]) => [
    name,
    help,
  ]);
  assert.deepEqual(documented.toSorted(), ours.toSorted());
});

test('a query for what is not there is found out', () => {
  const text =
    '# TYPE a_seconds histogram\na_seconds_bucket{le="1",outcome="done"} 0\na_total{outcome="x"} 0';
  const scrape = readScrape([{ text, instance: '127.0.0.1:1' }]);
  const problems = (query: string) =>
    selectorsOf(query).flatMap((selector) => whyNothing(scrape, selector) ?? []);
  assert.deepEqual(
    problems('sum by (le, job) (rate(a_seconds_bucket{le="1"}[$__rate_interval]))'),
    [],
  );
  assert.deepEqual(problems('a_total{outcome=~"x|y",instance=~"$instance"}'), []);
  assert.match(problems('rate(a_second_bucket[5m])').join(), /no service has a_second_bucket/);
  assert.match(problems('sum by (reason) (a_total)').join(), /no label reason/);
  assert.match(
    problems('a_total{outcome="y"} + a_total').join(),
    /no series of a_total has .outcome="y"/,
  );
  assert.match(problems('a_total{outcome!="x"}').join(), /no series/);
  assert.match(problems('a_total{reason!="x"}').join(), /no series/);
  assert.throws(() => selectorsOf('sum(a_total'), /no PromQL/);
});

function problemsOf(
  { where, query }: Asked,
  { scrape, recorded }: { scrape: Scrape; recorded: ReadonlySet<string> },
): string[] {
  const emptyBecause = (selector: Selector) =>
    recorded.has(selector.metric)
      ? undefined
      : whyNothing(ofPrometheus.series.has(selector.metric) ? ofPrometheus : scrape, selector);
  return selectorsOf(query).flatMap((selector) => {
    const why = emptyBecause(selector);
    return why === undefined ? [] : `${where}: ${why}`;
  });
}

function recordedAndAlerted(): { queries: Asked[]; recorded: ReadonlySet<string> } {
  const rules = globSync('infra/observability/prometheus/rules/*.yml', { cwd: root }).flatMap(
    (file) => {
      const { groups } = parse(read(file)) as { groups: { rules: Rule[] }[] };
      return groups.flatMap((group) => group.rules);
    },
  );
  return {
    queries: rules.map(({ alert, record = '', expr }) => ({ where: alert ?? record, query: expr })),
    recorded: new Set(rules.flatMap(({ record }) => record ?? [])),
  };
}

function dashboardQueries(): Asked[] {
  return globSync('infra/observability/grafana/dashboards/*.json', { cwd: root }).flatMap(
    (file) => {
      const board = JSON.parse(read(file)) as {
        templating: { list: { type: string; name: string; query: string }[] };
        panels: { title: string; targets?: { expr?: string }[] }[];
      };
      const variables = board.templating.list
        .filter(({ type }) => type === 'query')
        .map(({ name, query }) => ({ where: `${file}, ${name}`, query: labelled(query) }));
      const panels = board.panels.flatMap(({ title, targets = [] }) =>
        targets.flatMap(({ expr }) =>
          expr === undefined ? [] : { where: `${file}, ${title}`, query: expr },
        ),
      );
      return [...variables, ...panels];
    },
  );
}

/**
 * `label_values(metric, label)` is Grafana's own; of a selector it is the same to group by the
 * label.
 */
function labelled(query: string): string {
  const [, selector, label] = /^label_values\((.+), ?(\w+)\)$/.exec(query) ?? [];
  assert.ok(selector !== undefined && label !== undefined, query);
  return `group by (${label}) (${selector})`;
}
