import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { storeNamed } from '@triplock/claim-stores';
import { claimStores } from '../choices.ts';
import { cloneFolder, createHome, homeAt } from '../home.ts';
import { declarations } from '../services.ts';
import { providerNamed, providerNames } from '@triplock/providers';
import { leaveDead } from '../faults.ts';
import { readState, writeState } from '../session.ts';
import { fakeEngine } from '../test/containers.ts';
import { runScript } from '../test/home.ts';

/** A claim store that brings its server along, where there is one. */
const claimed = claimStores.find((name) => storeNamed(name).brings !== undefined) ?? claimStores[0];
const { brings } = storeNamed(claimed);

/** What runs after `docker compose up`, and where each answers inside of its container. */
const insidePorts = {
  ...Object.fromEntries(
    declarations.map(({ name, ports }) => [name, ports.map(({ inside }) => inside).sort()]),
  ),
  ...Object.fromEntries(
    providerNames.map((name) => {
      const { simulator } = providerNamed(name);
      return [simulator.name, [simulator.port.inside]];
    }),
  ),
  catcher: [8090],
  redis: [6379],
  kafka: [9092],
  postgres: [5432],
  pubsub: [8085],
  ...(brings && { [brings.name]: [brings.container.port] }),
};

/** A home that nothing is ever started in. */
function testFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'triplock-home-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return join(folder, 'home');
}

type Brought = { apiKey: string; madeIn?: string; createdAt?: Date; without?: string };

/** An engine with the containers of `docker compose up`, which others may bring up anew. */
function fakeEngineWith(t: TestContext) {
  const { folder } = createHome(testFolder(t));
  const [inspected, kept] = [join(folder, 'inspected'), join(folder, 'kept')];
  const engine = fakeEngine(
    t,
    `ps*) echo some;; inspect*) cat '${inspected}';; exec*) cat '${kept}';;`,
  );
  return {
    ...engine,
    bring({ apiKey, madeIn = cloneFolder, createdAt = new Date(), without }: Brought) {
      const containers = Object.entries(insidePorts)
        .filter(([service]) => service !== without)
        .map(([service, ports], index) => ({
          Id: service,
          Created: createdAt.toISOString(),
          RestartCount: service === 'ledger-worker' ? 3 : 0,
          HostConfig: { RestartPolicy: { Name: 'on-failure' } },
          State: { Status: 'running', Pid: 1, StartedAt: '' },
          Config: {
            Labels: {
              'com.docker.compose.service': service,
              'com.docker.compose.container-number': '1',
              'com.docker.compose.project.working_dir': madeIn,
            },
            Env: [`CLAIMS=${claimed}`, 'LEDGER_STORE=postgres'],
          },
          NetworkSettings: {
            Ports: Object.fromEntries(
              ports.map((port, n) => [`${port}/tcp`, [{ HostPort: `${4_000 + index * 10 + n}` }]]),
            ),
          },
        }));
      writeFileSync(inspected, JSON.stringify(containers));
      const partners = [{ id: 'acme', apiKey, webhookSecret: 'whsec' }];
      writeFileSync(kept, JSON.stringify({ postgresPassword: 'secret', partners }));
    },
  };
}

type Said = { partners: { apiKey: string }[] } & Record<string, unknown>;

async function statusOn({ environment }: { environment: { PATH: string } }, home: string) {
  const { stdout, stderr } = await runScript(['status', '--json', '--home', home], environment);
  const status = JSON.parse(stdout) as Said;
  return { status, printed: stderr, apiKeys: status.partners.map(({ apiKey }) => apiKey) };
}

test('what docker compose brought up is found by every command, with its stores and ports', async (t) => {
  const [engine, home] = [fakeEngineWith(t), testFolder(t)];
  engine.bring({ apiKey: 'first' });
  const { status, printed, apiKeys } = await statusOn(engine, home);
  assert.match(printed, /goes on with the containers that docker compose brought up/);
  const { gateways, claims, ledger } = status;
  assert.deepEqual(
    { apiKeys, gateways, claims, ledger },
    {
      apiKeys: ['first'],
      gateways: ['http://127.0.0.1:4000'],
      claims: claimed,
      ledger: 'postgres',
    },
  );
  const last = 4_000 + 10 * (Object.keys(insidePorts).length - 1);
  if (brings) assert.equal(status[brings.name], brings.addressOf('127.0.0.1', last));
  const { parts, replicas } = readState(homeAt(home));
  assert.deepEqual({ parts, replicas }, { parts: 'docker', replicas: 1 });
  assert.equal((await statusOn(engine, home)).printed, '');
});

test('status says how often the engine started a container again, which it is told to leave dead before a crash point', async (t) => {
  const [engine, home] = [fakeEngineWith(t), testFolder(t)];
  engine.bring({ apiKey: 'first' });
  const { status } = await statusOn(engine, home);
  const processes = status['processes'] as { name: string; restarts: number }[];
  const restarted = processes.filter(({ restarts }) => restarts > 0);
  assert.deepEqual(
    restarted.map(({ name, restarts }) => ({ name, restarts })),
    [{ name: 'ledger-worker-1', restarts: 3 }],
  );
  const { PATH } = process.env;
  t.after(() => void (process.env['PATH'] = PATH));
  process.env['PATH'] = engine.environment.PATH;
  await leaveDead({ home, name: 'ledger-worker-1' });
  assert.equal(engine.calls().at(-1), 'update --restart no ledger-worker');
});

test('made anew it has other credentials, and every command has those', async (t) => {
  const [engine, home] = [fakeEngineWith(t), testFolder(t)];
  engine.bring({ apiKey: 'first', createdAt: new Date(Date.now() - 60_000) });
  await statusOn(engine, home);
  engine.bring({ apiKey: 'second', createdAt: new Date(Date.now() + 1_000) });
  assert.deepEqual((await statusOn(engine, home)).apiKeys, ['second']);
});

test('after docker compose down nothing is up', async (t) => {
  const [engine, home] = [fakeEngineWith(t), testFolder(t)];
  engine.bring({ apiKey: 'first' });
  await statusOn(engine, home);
  const { environment } = fakeEngine(t, `ps*) ;;`);
  const { stdout } = await runScript(['status', '--home', home], environment);
  assert.match(stdout, /^nothing runs: start it with/);
});

test('containers of another clone, half a system, and a home of processes are left as they are', async (t) => {
  const engine = fakeEngineWith(t);
  for (const brought of [{ madeIn: '/another/clone' }, { without: 'redis' }]) {
    const home = testFolder(t);
    engine.bring({ apiKey: 'first', ...brought });
    assert.deepEqual((await statusOn(engine, home)).apiKeys, []);
    assert.equal(existsSync(home), false);
  }
  const home = createHome(testFolder(t));
  writeState(home, { ...readState(home), parts: 'native' });
  engine.bring({ apiKey: 'first' });
  assert.deepEqual((await statusOn(engine, home.folder)).apiKeys, []);
  assert.equal(readState(home).parts, 'native');
});
