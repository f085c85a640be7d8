import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test, type TestContext } from 'node:test';
import { eventually, freePort } from '@triplock/testing';
import { bringUpParts, bringUpServices } from './bring-up.ts';
import { continueProcess, killProcess, pauseProcess, stopProcess } from './faults.ts';
import { homeAt } from './home.ts';
import { connectionLimits } from '@triplock/postgres';
import { withDatabase } from './provision/database.ts';
import type { Service } from './service-table.ts';
import { readState } from './session.ts';
import { unreachableParts } from './status.ts';
import { takeDown } from './take-down.ts';
import { givenBrokers, processesOf, runScript, testHome } from './test/home.ts';

/** Making an empty PostgreSQL cluster takes a while on a busy machine. */
const startLimit = { withinMs: 60_000, what: 'a service that starts' };

before(async () => Object.assign(process.env, await givenBrokers()));

/** What a test broke in it, or took down, the next one starts again; the first finds nothing up. */
const home = testHome({ after });

test('Ctrl-C while services start leaves nothing half started, and the next up works', async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const up = bringUpServices({ home, signal }, standIns({ STAND_IN: 'is never ready' }));
  const isStarting = async () => 'ingest-gateway-1' in readState(homeAt(home)).processes;
  await Promise.race([up, eventually(isStarting, startLimit)]);
  controller.abort();
  await assert.rejects(up, { name: 'AbortError' });
  assert.deepEqual(processesOf(home), []);
  assert.equal(existsSync(homeAt(home).endpoints), false);
  const { services } = await bringUpServices({ home }, standIns());
  assert.equal(services.length, 1);
});

test('a service has a temporary folder as long as it runs, whatever whoever started it had', async (t) => {
  const { TMPDIR } = process.env;
  t.after(() => {
    if (TMPDIR === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = TMPDIR;
  });
  const starters = mkdtempSync(join(tmpdir(), 'whoever-starts-it-'));
  process.env['TMPDIR'] = starters;
  const { services } = await bringUpServices({ home }, standIns({ FORM: 'started here' }));
  rmSync(starters, { recursive: true });
  const itsOwn = await (await fetch(services[0]!.health)).text();
  assert.equal(itsOwn, homeAt(home).temporary);
  assert.equal(existsSync(itsOwn), true);
  await takeDown({ home });
  assert.equal(existsSync(itsOwn), false);
});

test('a service whose settings changed is started again, the others are not', async () => {
  await bringUpServices({ home }, standIns({ FORM: 'first' }));
  const before = readState(homeAt(home)).processes;
  await bringUpServices({ home }, standIns({ FORM: 'second' }));
  const after = readState(homeAt(home)).processes;
  assert.notEqual(after['ingest-gateway-1']!.pid, before['ingest-gateway-1']!.pid);
  assert.deepEqual(after['ingest-gateway-1']!.ports, before['ingest-gateway-1']!.ports);
  for (const name of ['catcher', 'redis', 'postgres']) {
    assert.equal(after[name]!.pid, before[name]!.pid);
  }
});

test('Ctrl-C while a service is started again says that it is down, and the next up starts it', async () => {
  await bringUpServices({ home }, standIns());
  const { pid } = readState(homeAt(home)).processes['ingest-gateway-1']!;
  const controller = new AbortController();
  const { signal } = controller;
  const up = bringUpServices({ home, signal }, standIns({ STAND_IN: 'is never ready' }));
  const isStarting = async () => {
    const again = readState(homeAt(home)).processes['ingest-gateway-1'];
    return again !== undefined && again.pid !== pid;
  };
  await Promise.race([up, eventually(isStarting, startLimit)]);
  controller.abort();
  await assert.rejects(up, { name: 'AbortError', message: /so is ingest-gateway-1.*npm run up/ });
  const { services } = await bringUpServices({ home }, standIns());
  assert.equal(services.length, 1);
});

test('a service that does not start is shown with its last words and its log', async () => {
  const up = bringUpServices({ home }, standIns({ STAND_IN: 'refuses to start' }));
  await assert.rejects(up, (error: Error) => {
    assert.match(error.message, /^ingest-gateway-1 exited with code 3 before it was ready/);
    assert.match(error.message, /the stand-in refuses to start/);
    assert.match(error.message, /log: .*ingest-gateway-1\.log/);
    return true;
  });
});

test('every role can log in but the one that copies a ledger from elsewhere, and both demo partners are there once', async () => {
  await bringUpServices({ home }, standIns());
  const { databases, partners, postgres } = await bringUpServices({ home }, standIns());
  const { copy, ...others } = databases;
  for (const url of Object.values(others)) {
    await withDatabase(url, (database) => database.ping());
  }
  await assert.rejects(
    withDatabase(copy, (database) => database.ping()),
    /"triplock_copy" is not permitted to log in/,
  );
  // The owner of the sessions never logs in.
  const limits = await withDatabase(postgres, (database) =>
    database.query<{ role: string; limit: number }>(
      `SELECT rolname AS role, rolconnlimit AS "limit" FROM pg_roles
       WHERE rolname LIKE 'triplock\\_%' AND rolname <> 'triplock_sessions'`,
    ),
  );
  const limitOf = Object.fromEntries(limits.map(({ role, limit }) => [role, limit]));
  assert.deepEqual(limitOf, connectionLimits(1));
  assert.deepEqual(
    partners.map(({ id }) => id),
    ['acme', 'globex'],
  );
  assert.equal(new Set(partners.map(({ apiKey }) => apiKey)).size, 2);
});

test('who gives way to others has a lower priority, also where Linux shares out by sessions', async () => {
  await bringUpServices({ home }, standIns());
  const { 'ingest-gateway-1': gateway, catcher } = readState(homeAt(home)).processes;
  assert.equal(getPriority(gateway!.pid), getPriority());
  assert.equal(getPriority(catcher!.pid), Math.max(getPriority(), 10));
  const groups = [gateway!, catcher!].map(({ pid }) => `/proc/${pid}/autogroup`);
  if (!groups.every((each) => existsSync(each))) return;
  const [first, behind] = groups.map((each) => readFileSync(each, 'utf8'));
  assert.match(first!, /nice 0$/m);
  assert.match(behind!, /nice 10$/m);
});

// How many there are is remembered: from here on there are two.
test('services start in as many copies as asked, and up again adds to them', async () => {
  const one = await bringUpServices({ home }, standIns());
  assert.deepEqual(
    one.services.map(({ name }) => name),
    ['ingest-gateway-1'],
  );
  const two = await bringUpServices({ home, replicas: 2 }, standIns());
  assert.deepEqual(
    two.services.map(({ name }) => name),
    ['ingest-gateway-1', 'ingest-gateway-2'],
  );
  assert.equal(two.services[0]!.pid, one.services[0]!.pid);
  assert.deepEqual(await bringUpServices({ home }, standIns()), two);
  const written = JSON.parse(readFileSync(homeAt(home).endpoints, 'utf8')) as unknown;
  assert.deepEqual(written, JSON.parse(JSON.stringify(two)));

  await takeDown({ home });
  assert.deepEqual(processesOf(home), []);
});

test('a process that was asked to end is gone, with what it held, and the next up starts just it', async () => {
  const before = await bringUpServices({ home, replicas: 2 }, standIns());
  const name = 'ingest-gateway-2';
  assert.deepEqual(await stopProcess({ home, name }), { outcome: 'stopped' });
  await assert.rejects(async () => stopProcess({ home, name }), /no process ingest-gateway-2 runs/);
  const after = await bringUpServices({ home }, standIns());
  const [same, again] = after.services;
  assert.deepEqual(same, before.services[0]);
  assert.notEqual(again!.pid, before.services[1]!.pid);
  assert.equal(again!.health, before.services[1]!.health);

  await killProcess({ home, name });
  const once = await bringUpServices({ home }, standIns());
  assert.deepEqual(once.services[0], same);
  assert.notEqual(once.services[1]!.pid, again!.pid);
});

test('replicas whose settings changed are replaced one after the other, and no further than one that does not start', async () => {
  const up = (settings: Readonly<Record<string, string>>, except: string[] = []) => {
    const lines: string[] = [];
    const report = (line: string) => lines.push(line.replace(/( on|:? its) .*/, ''));
    const ended = bringUpServices({ home, replicas: 2, except, report }, standIns(settings));
    return { lines, ended };
  };
  const pids = () => [1, 2].map((n) => readState(homeAt(home)).processes[gateway(n)]?.pid);
  await up({ FORM: 'first' }).ended;
  const [one, two] = pids();
  await up({ FORM: 'second' }, [gateway(2)]).ended;
  const [other, same] = pids();
  assert.notEqual(other, one);
  assert.equal(same, two, 'a process that is excepted is left alone');

  await assert.rejects(up({ STAND_IN: 'refuses to start' }).ended, /ingest-gateway-1 exited/);
  assert.equal(pids()[1], two, 'the next one goes on as it was');
  await up({ FORM: 'first' }).ended;
  assert.equal(pids()[1], two);
  const { lines, ended } = up({ FORM: 'third' });
  await ended;
  assert.deepEqual(
    lines.filter((line) => line.startsWith('ingest-gateway')),
    [1, 2].flatMap((n) => [gateway(n), `${gateway(n)}: ready`]),
  );
});

const gateway = (n: number) => `ingest-gateway-${n}`;

test('all ports that are taken are named, with who wants each and what to do, before anything starts', async (t) => {
  const home = testHome(t);
  const [redis, console] = await Promise.all([aSquatter(t), aSquatter(t)]);
  const { code, stderr } = await runScript(['up', '--parts', 'native', '--home', home], {
    TRIPLOCK_REDIS_PORT: String(redis),
    TRIPLOCK_CONSOLE_PORT: String(console),
  });
  assert.equal(code, 1);
  const way = 'is taken: end what listens there, or set';
  assert.match(stderr, new RegExp(`port ${redis} for redis.port ${way} TRIPLOCK_REDIS_PORT to`));
  assert.match(stderr, new RegExp(`port ${console} for console.http ${way} TRIPLOCK_CONSOLE_PORT`));
  assert.deepEqual(processesOf(home), []);
  assert.deepEqual(readdirSync(homeAt(home).data), []);
});

/** The port of a program that has nothing to do with us. */
async function aSquatter(t: TestContext): Promise<number> {
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  t.after(() => squatter.close());
  return (squatter.address() as AddressInfo).port;
}

test('a server that was given and does not answer is named with its variable', async () => {
  await bringUpParts({ home });
  const { endpoints } = homeAt(home);
  const left = JSON.parse(readFileSync(endpoints, 'utf8')) as object;
  const kafka = `127.0.0.1:${await freePort()}`;
  writeFileSync(endpoints, JSON.stringify({ ...left, kafka }));
  assert.deepEqual(await unreachableParts({ home }), [
    `kafka at ${kafka}, given by KAFKA_BROKERS, does not answer`,
  ]);
});

test('a part that does not answer is named with the next step, whether it died or stands still', async () => {
  await bringUpParts({ home });
  assert.deepEqual(await unreachableParts({ home }), []);

  const up = `\`npm run up -- --home '${home}'\``;
  await pauseProcess({ home, name: 'postgres' });
  const startedMs = performance.now();
  assert.deepEqual(await unreachableParts({ home }), [
    `postgres stands still: ${up} lets it go on`,
  ]);
  assert.ok(performance.now() - startedMs < 4_000);
  await continueProcess({ home, name: 'postgres' });

  await killProcess({ home, name: 'redis' });
  assert.deepEqual(await unreachableParts({ home }), [
    `redis is not running: ${up} starts it again`,
  ]);
  assert.deepEqual(await unreachableParts({ home, only: ['postgres', 'kafka'] }), []);
});

/** A table of services that only answer health checks. `settings` go to the replicated one. */
function standIns(settings: Readonly<Record<string, string>> = {}): Service[] {
  const port = (use: string, setting: string) => ({
    use,
    setting,
    ready: '/readyz',
    usual: 18_000,
    variable: 'TRIPLOCK_STAND_IN_PORT',
  });
  return [
    {
      name: 'ingest-gateway',
      main: 'infra/launcher/test/stand-in.ts',
      copies: 'replicas',
      isTraced: true,
      yields: false,
      memoryMiB: 256,
      ports: [port('admin', 'ADMIN_PORT')],
      settings: () => settings,
    },
    {
      name: 'catcher',
      main: 'infra/launcher/test/stand-in.ts',
      copies: 'one',
      isTraced: false,
      yields: true,
      memoryMiB: 256,
      ports: [port('http', 'CATCHER_PORT')],
      settings: () => ({}),
    },
  ];
}
