import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { dashboardFiles, dashboards } from './dashboards.ts';

type Alert = {
  alert?: string;
  labels?: { severity?: string };
  annotations?: Partial<Record<'summary' | 'description' | 'runbook_url', string>>;
};

const root = join(import.meta.dirname, '../../..');
const read = (path: string) => readFileSync(join(root, path), 'utf8');

test('Grafana reads a file of each dashboard, and no others', () => {
  const written = dashboardFiles();
  const files = globSync('infra/observability/grafana/dashboards/*', { cwd: root });
  assert.deepEqual(
    files.map((file) => join(root, file)).sort(),
    written.map(({ path }) => path).sort(),
  );
});

test('every panel has a title of its own, says what it shows, and has a unit and a query', () => {
  for (const { uid, title, description, rows } of dashboards) {
    assert.ok(title.startsWith('Triplock: ') && description.endsWith('.'), uid);
    const panels = rows.flatMap((row) => row.panels);
    for (const panel of panels) {
      const which = `${uid}, ${panel.title}`;
      assert.match(panel.description, /^\w.+[.]$/s, which);
      assert.match(panel.unit, /^(short|s|percentunit|reqps|bytes)$/, which);
      assert.ok(panel.queries.length > 0, which);
      for (const { legend } of panel.queries) assert.notEqual(legend, '', which);
    }
    const titles = panels.map((panel) => panel.title);
    assert.deepEqual(titles, [...new Set(titles)], uid);
  }
  const uids = dashboards.map(({ uid }) => uid);
  assert.deepEqual(uids, [...new Set(uids)]);
});

test('panels lie beside one another and on no other', () => {
  for (const { path, text } of dashboardFiles()) {
    const taken = new Set<string>();
    const { panels } = JSON.parse(text) as {
      panels: { gridPos: Record<'x' | 'y' | 'w' | 'h', number> }[];
    };
    for (const { gridPos } of panels) {
      const { x, y, w, h } = gridPos;
      assert.ok(x + w <= 24, path);
      for (let n = 0; n < w * h; n += 1) {
        const cell = `${x + (n % w)},${y + Math.floor(n / w)}`;
        assert.ok(!taken.has(cell), `${path}: two panels at ${cell}`);
        taken.add(cell);
      }
    }
  }
});

test('every alert has a severity, says what it is, and has its runbook; no runbook is without one', () => {
  const alerts = alertRules();
  assert.ok(alerts.length > 20);
  const sections = runbooks();
  for (const { alert = '', labels, annotations } of alerts) {
    assert.match(labels?.severity ?? '', /^(page|ticket)$/, alert);
    assert.ok(annotations?.summary && annotations.description, alert);
    assert.equal(annotations.runbook_url, `docs/alerts.md#${alert.toLowerCase()}`, alert);
    const section = sections.get(alert) ?? '';
    assert.ok(section.includes(`\`severity: ${labels?.severity}\``), `${alert}: another severity`);
    const parts = [...section.matchAll(/^\*\*(.+)\*\*$/gm)].map(([, part]) => part);
    assert.deepEqual(parts, ['Money', 'Look', 'Do', 'Do not'], alert);
  }
  assert.deepEqual([...sections.keys()].sort(), alerts.map(({ alert = '' }) => alert).sort());
});

test('a runbook names only commands that there are', () => {
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
  for (const [alert, section] of runbooks()) {
    const named = [...section.matchAll(/npm run ([\w-]+)/g)].map(([, name = '']) => name);
    assert.ok(named.length > 0, alert);
    for (const name of named) assert.ok(Object.hasOwn(scripts, name), `${alert}: npm run ${name}`);
  }
});

test('the rules’ own tests see every alert fire', () => {
  const files = globSync('infra/observability/prometheus/tests/*.yml', { cwd: root });
  const fired = new Set(
    files.flatMap((file) =>
      [...read(file).matchAll(/alertname="(\w+)"\}', value: 1/g)].map(([, name]) => name),
    ),
  );
  assert.deepEqual(
    alertRules().flatMap(({ alert }) => (fired.has(alert) ? [] : alert)),
    [],
  );
});

function alertRules(): Alert[] {
  return globSync('infra/observability/prometheus/rules/*.yml', { cwd: root }).flatMap((file) => {
    assert.match(basename(file), /^[a-z-]+\.yml$/);
    const { groups } = parse(read(file)) as { groups: { rules: Alert[] }[] };
    return groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined);
  });
}

/** The sections of docs/alerts.md by their alerts. */
function runbooks(): Map<string, string> {
  const sections = read('docs/alerts.md').split(/^## /m).slice(1);
  return new Map(sections.map((section) => [section.split('\n')[0]!, section]));
}
