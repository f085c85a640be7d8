import assert from 'node:assert/strict';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { topics } from '@triplock/contracts';
import { providerNamed, type ListedProvider } from '@triplock/providers';
import { portsBesideServices } from './bring-up.ts';
import { problemsOfContributions } from './contributions.ts';
import { wirings } from './containers/compose-file.ts';
import { fileOf, inNetwork, settingsInFiles, writtenAt } from './containers/network.ts';
import { cloneFolder } from './home.ts';
import { type Service, services } from './service-table.ts';
import { redisRights } from './parts/redis.ts';
import { pubsubRights, shownRights } from './broker-rights.ts';
import { checkServices, declarations, type DeclaredService } from './services.ts';
import { containerOf } from './test/containers.ts';
import type { Wiring } from './wiring.ts';

// What is written by hand beside the services' declarations is compared with them here. A failure
// begins with the file to mend.

const read = (path: string) => readFileSync(join(cloneFolder, path), 'utf8');
const sources = (pattern: string) =>
  globSync(pattern, { cwd: cloneFolder, exclude: ['**/node_modules'] }).filter(
    (path) => !/\.(test|testing)\.ts$|\/test\//.test(path),
  );

test('every service is declared and listed, and no port is taken twice', () => {
  checkServices(cloneFolder, portsBesideServices());
});

test('a service without a declaration, and a port that is taken, are refused with the next step', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-declarations-'));
  t.after(() => rmSync(clone, { recursive: true }));
  const add = (name: string, ...files: string[]) => {
    mkdirSync(join(clone, 'services', name), { recursive: true });
    for (const file of [...files, 'package.json'])
      writeFileSync(join(clone, 'services', name, file), '{ "tags": ["kind:service"] }');
  };
  const [one] = declarations as [DeclaredService];
  const check = (...listed: DeclaredService[]) => checkServices(clone, [], listed);
  add(one.name, 'main.ts', 'service.ts');
  check(one);
  add('console', 'main.ts');
  assert.throws(() => check(one), /services\/console has no service\.ts: declare it there/);
  add('console', 'main.ts', 'service.ts');
  assert.throws(() => check(one), /services\/console\/service\.ts is not listed: add a line/);
  const twice = { ...one, name: 'console' };
  const taken = /services\/console\/service\.ts: its admin ports 18100 to 18101 are taken by/;
  assert.throws(() => check(one, twice), taken);
  const gone = { ...one, name: 'gone', ports: [] };
  const line = /services\.ts lists gone, and there is no services\/gone: remove its line/;
  assert.throws(() => check(one, { ...twice, ports: [] }, gone), line);
});

test('a contribution that lacks a part, or names what another has, is refused with the file to mend', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-contributions-'));
  t.after(() => rmSync(clone, { recursive: true }));
  const write = (path: string, text: string) => {
    mkdirSync(join(clone, path, '..'), { recursive: true });
    writeFileSync(join(clone, path), text);
  };
  const consumer = declarations.find(({ inbox, watch }) => inbox && watch)!;
  const { watch, rules: _, ...bare } = { ...consumer, name: 'some' };
  const rules = { 'some-missing': { holds: 'always' } } as const;
  const problems = (...listed: DeclaredService[]) => problemsOfContributions(clone, listed);
  assert.deepEqual(problems(bare), [
    'services/some/audit/harms.testing.ts is not there: what a consumer brings is in CONTRIBUTING.md',
    'services/some/watch/watch.ts is not there: what a consumer brings is in CONTRIBUTING.md',
    'services/some/service.ts declares no watch: take it from ./watch/watch.ts',
  ]);
  for (const name of ['some', 'other']) {
    write(`services/${name}/audit/harms.testing.ts`, '');
    write(`services/${name}/watch/watch.ts`, '');
  }
  const whole = { ...bare, watch: watch! };
  assert.deepEqual(problems(whole), []);
  const without = ['services/some/audit/checks.sql is not there, for some-missing'];
  assert.deepEqual(problems({ ...whole, rules }), without);
  write('services/some/audit/checks.sql', '-- name: some_late\nSELECT 1\n');
  assert.deepEqual(problems({ ...whole, rules }), [
    'services/some/service.ts declares no rule for some-late, of audit/checks.sql',
    'services/some/audit/checks.sql has no some_missing',
  ]);
  for (const name of ['some', 'other']) {
    write(`services/${name}/audit/checks.sql`, '-- name: some_missing\nSELECT 1\n');
  }
  const figures = Object.keys({ ...watch!.counters, ...watch!.gauges });
  assert.deepEqual(problems({ ...whole, rules }, { ...whole, rules, name: 'other' }), [
    'services/other/audit/rules.ts names the check some-missing, which is in services/some/audit/rules.ts already',
    ...figures.map(
      (name) =>
        `services/other/service.ts names the figure ${name}, which is in services/some/service.ts already`,
    ),
  ]);
});

test('containers run the services’ main files, and answer where the others look for them', () => {
  for (const { name, main } of services) {
    const { build, command } = containerOf(name);
    const runs = join(build!.args.WORKSPACE, command?.at(-1) ?? 'main.ts');
    assert.equal(runs, main, `docker-compose.yml: ${name} runs another file`);
  }
  const inside = (name: string) => containerOf(name).ports!.map((each) => each.split(':').at(-1));
  assert.deepEqual(inside('catcher'), [new URL(inNetwork.catcher).port]);
  for (const [provider, url] of Object.entries(inNetwork.providers)) {
    const { name } = providerNamed(provider as ListedProvider).simulator;
    assert.deepEqual(inside(name), [new URL(url).port]);
  }
});

/** What a container is given because it is one, and not because of what the system is. */
const ofContainers = ['TRIPLOCK_MODE', 'LOG_LEVEL', 'WEBHOOK_TARGETS', 'CONSOLE_PUBLISHED_ON'];

test('a service in a container has the settings that the launcher gives it, whatever the stores', () => {
  for (const service of services) {
    const given = containerOf(service.name).environment ?? {};
    const meant = new Set<string>();
    const where = `docker-compose.yml, environment of ${service.name}`;
    for (const wiring of wirings()) {
      for (const [name, value] of Object.entries(settingsInContainer(service, wiring))) {
        const written = String(given[name]).replace('${CLAIMS:-redis}', wiring.claims);
        const chosen = written
          .replace('${LEDGER_STORE:-postgres}', wiring.ledger)
          .replace('${KAFKA_CLIENT:-kafkajs}', 'kafkajs');
        assert.equal(chosen, value, `${where}: ${name}`);
        meant.add(name);
      }
    }
    const more = Object.keys(given)
      .filter((name) => !ofContainers.includes(name) && !listens(service, name))
      .filter((name) => !meant.has(name) && !name.startsWith('OTEL_'));
    assert.deepEqual(more, [], `${where}: more than it needs`);
  }
});

test('each service sees only its own settings, and the step before writes all of them', () => {
  const written = containerOf('provision').volumes!;
  for (const { name } of services) {
    const mounted = containerOf(name).volumes!.filter((each) => each.includes('/run/'));
    assert.deepEqual(mounted, [`for-${name}:/run/triplock:ro`], `docker-compose.yml, ${name}`);
    const volume = `for-${name}:${writtenAt(name, '/run/triplock')}`;
    assert.ok(written.includes(volume), `docker-compose.yml, provision: no volume ${volume}`);
  }
});

test('every service of the pipeline has the settings of OpenTelemetry that are set outside, and none by itself', () => {
  for (const { name, isTraced } of services) {
    const given = Object.entries(containerOf(name).environment ?? {});
    const tracing = given.filter(([variable]) => variable.startsWith('OTEL_'));
    assert.equal(tracing.length > 0, isTraced, `docker-compose.yml, ${name}`);
    for (const [variable, value] of tracing) assert.equal(value, `\${${variable}:-}`);
  }
});

test('every role is made by migrations: with the schema of its name, or for the libs', () => {
  const roles = read('libs/postgres/migrations/0001-baseline.sql');
  for (const { name, role, schema } of declarations) {
    if (role === undefined) continue;
    const where = `services/${name}/service.ts`;
    if (schema !== undefined) assert.equal(role, `triplock_${schema}`, where);
    else
      assert.match(
        roles,
        new RegExp(`'${role}'`),
        `${where}: it has no schema, and no lib makes ${role}`,
      );
  }
});

test('each crash point is declared by one service, which reaches it, docs/failures.md knows it, and a test dies there', () => {
  const declared = declarations.flatMap(({ crashPoints }) => crashPoints);
  const [, windows = ''] = read('docs/failures.md').split('## Every crash window');
  const rows = [...windows.matchAll(/^\| `([a-z]+\.[a-z-]+)` *\|/gm)].map(([, point]) => point);
  assert.deepEqual(rows.toSorted(), declared.toSorted(), 'docs/failures.md: what is durable there');
  for (const { crashPoints, name } of declarations) {
    const texts = sources(`services/${name}/**/*.ts`).map(read).join('\n');
    const reached = [...texts.matchAll(/\breached\('([\w.-]+)'\)/g)].map(([, point]) => point);
    const others = reached.filter((point) => !crashPoints.some((each) => each === point));
    assert.deepEqual(others, [], `services/${name}/service.ts: crash points that it lacks`);
    const tests = globSync(`services/${name}/**/*.test.ts`, { cwd: cloneFolder })
      .map(read)
      .join('\n');
    const untried = crashPoints.filter((point) => !tests.includes(`'${point}`));
    assert.deepEqual(untried, [], `services/${name}: no test dies there`);
  }
});

test('each of the thirty invariants is looked for by checks that exist, or shown by a test', () => {
  const [, after = ''] = read('docs/failures.md').split('## What must hold');
  const [section = ''] = after.split('\n## ');
  const rows = [...section.matchAll(/^\| (I\d+) +\|[^|]+\|([^|]+)\|([^|]+)\|$/gm)];
  const numbers = rows.map(([, number]) => number);
  assert.deepEqual(
    numbers,
    Array.from({ length: 30 }, (_, n) => `I${n + 1}`),
  );
  const histories = ['history.ts', 'compare-with-layers.ts'];
  const sources = [
    'services/auditor/checks.ts',
    'libs/pipeline/contributed.ts',
    ...histories.map((file) => `libs/inspect/history/${file}`),
  ];
  const known = sources.map(read).join('\n');
  for (const [, number, checks = '', tests = ''] of rows) {
    const named = [...checks.matchAll(/`([^`]+)`/g)].map(([, check]) => check);
    const unknown = named.filter((check) => !known.includes(`'${check}':`));
    assert.deepEqual(unknown, [], `docs/failures.md, ${number}: no check has this name`);
    assert.ok(named.length > 0 || tests.includes('`'), `docs/failures.md, ${number}: nothing`);
  }
});

test('the rights in Redis are those that the manual shows for a server elsewhere', () => {
  const manual = read('docs/operating.md');
  for (const [user, rights] of Object.entries(redisRights)) {
    const line = `user ${user} on >… ~{triplock:* ${rights}\n`;
    assert.ok(manual.includes(line), `docs/operating.md: ${line}`);
  }
});

test('the rights in Kafka and Pub/Sub are those of what each service declares', () => {
  for (const { name, kafka, events } of declarations) {
    const where = `services/${name}/service.ts`;
    const of = kafka?.rights.flatMap((right) => ('group' in right ? right.group : [])) ?? [];
    const groups = new Set(of.map((group) => group.replace(/-dead-letters$/, '')));
    const meant = Object.values(kafka?.groups ?? {});
    assert.deepEqual([...groups].sort(), meant.toSorted(), `${where}: groups`);
    const own = (pubsubRights[name] ?? []).filter(({ may }) =>
      may.some((each) => /\.(publish|consume)$/.test(each)),
    );
    const at =
      events &&
      (events.does === 'publish'
        ? { topic: topics.events }
        : { subscription: events.subscription });
    assert.deepEqual(
      own.map(({ may: _, ...on }) => on),
      at === undefined ? [] : [at],
      `${where}: in Pub/Sub`,
    );
  }
});

test('the rights in Kafka and Pub/Sub are those that the manual shows', () => {
  const manual = read('docs/operating.md').replaceAll(/ +/g, ' ');
  const [, commands = ''] = /^may\(\).*\n((?:may .*\n)+)/m.exec(manual) ?? [];
  assert.equal(commands, `${shownRights.kafka.join('\n')}\n`, 'docs/operating.md, in Kafka');
  const rows = [...manual.matchAll(/^\| [a-z-]+ \| `pubsub\..*$/gm)].map(([row]) => row);
  assert.deepEqual(rows, shownRights.pubsub, 'docs/operating.md, in Pub/Sub');
});

test('each asset in SECURITY.md is held by tests that exist, or is not defended', () => {
  const [, after = ''] = read('SECURITY.md').split('## What is attacked');
  const [section = ''] = after.split('\n## ');
  const rows = [...section.matchAll(/^\| (?!asset|-)([^|]+)\|[^|]+\|([^|]+)\|([^|]*)\|$/gm)];
  assert.ok(rows.length >= 20, `${rows.length} assets`);
  for (const [, asset = '', control = '', tests = ''] of rows) {
    const where = `SECURITY.md, ${asset.trim()}`;
    const files = tests.split('`').slice(1);
    assert.ok(files.length > 0 || /not defended/i.test(control), `${where}: nothing holds it`);
    for (let n = 0; n < files.length; n += 2) {
      const [file = '', titles = ''] = files.slice(n);
      assert.match(file, /\.(test|conformance)\.ts$/, where);
      const quoted = [...titles.matchAll(/“([^”]+)”/g)].map(([, title = '']) => title);
      assert.ok(quoted.length > 0, `${where}: no test of ${file} is named`);
      const known = titlesIn(read(file));
      const gone = quoted.filter((title) => known.filter(isNamedBy(title)).length !== 1);
      assert.deepEqual(gone, [], `${where}: ${file} has not one test of this title`);
    }
  }
});

test('each metric in docs/observability.md is of a service that declares how it begins', () => {
  const rows = [...read('docs/observability.md').matchAll(/^\| `(triplock_\w+)`/gm)];
  const shared = [
    'triplock_duplicates_caught_total',
    'triplock_kafka_group_joins_total',
    'triplock_kafka_throttled_seconds_total',
  ];
  const unknown = rows
    .map(([, metric = '']) => metric)
    .filter((metric) => !shared.includes(metric))
    .filter((metric) => {
      const owners = declarations.filter((each) => each.metrics.some((x) => metric.startsWith(x)));
      return owners.length !== 1;
    });
  assert.deepEqual(unknown, [], 'services/NAME/service.ts: metrics begin with');
});

test('whoever looks into the inbox of more than one consumer looks into all of them', () => {
  const inboxes = declarations.filter(({ inbox }) => inbox).map(({ schema }) => `${schema}.inbox`);
  const readers = ['demo', 'services', 'libs/inspect', 'infra/launcher'].flatMap((folder) =>
    sources(`${folder}/**/*.{sql,ts}`),
  );
  // What reads all as one, or names each.
  const isWhole = (path: string) => mentions(read(path), 'consumers.inbox');
  const several = readers
    .map((path) => ({ path, missing: inboxes.filter((inbox) => !mentions(read(path), inbox)) }))
    .filter(({ path, missing }) => !isWhole(path) && missing.length <= inboxes.length - 2);
  const named = several.filter(({ missing }) => missing.length === 0).map(({ path }) => path);
  const whole = [...readers.filter(isWhole), ...named];
  assert.deepEqual(
    several.filter(({ missing }) => missing.length > 0),
    [],
    'add the inbox of the new consumer to these files',
  );
  // The audit, the trace, and what is published again to a new broker.
  assert.ok(whole.length >= 3, `only ${whole.join(', ')} look into every inbox`);
});

/** Whether a title is the one that is quoted, whole or by its beginning: `a key that …`. */
function isNamedBy(quoted: string): (title: string) => boolean {
  const [, beginning] = /^(.+) …$/.exec(quoted) ?? [];
  return (title) => (beginning === undefined ? title === quoted : title.startsWith(beginning));
}

/** The titles of the tests in a file, with … for what differs from test to test. */
function titlesIn(text: string): string[] {
  const titles = text.matchAll(/^\s*(?:test|it)\(\s*(['"`])(.*?)\1,/gm);
  return [...titles].map(([, , title = '']) => title.replaceAll(/\$\{[^}]*\}/g, '…'));
}

function mentions(text: string, table: string): boolean {
  return new RegExp(`\\b${table.replace('.', '\\.')}\\b`).test(text);
}

/** Ports, and hosts beside them: a container listens on all its addresses. */
function listens({ ports }: Service, name: string): boolean {
  return ports.some(({ setting }) => [setting, setting.replace(/PORT$/, 'HOST')].includes(name));
}

function settingsInContainer(service: Service, wiring: Wiring): Record<string, string> {
  const inFiles: readonly string[] = settingsInFiles;
  const entries = Object.entries(service.settings(wiring)).map(([name, value]) =>
    inFiles.includes(name) ? [`${name}_FILE`, fileOf(name)] : [name, value],
  );
  return Object.fromEntries(entries) as Record<string, string>;
}
