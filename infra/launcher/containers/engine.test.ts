import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { test, type TestContext } from 'node:test';
import type { PartDeclaration, ProgramInSdk } from '@triplock/runtime';
import { chooseTestPart, freePort, testImages } from '@triplock/testing';
import { homeAt } from '../home.ts';
import { findInSdk } from '../parts/store-parts.ts';
import { chooseParts } from '../run-mode.ts';
import { openSession, readState } from '../session.ts';
import { able, fakeEngine, type FakeEngine } from '../test/containers.ts';
import { runScript, testHome } from '../test/home.ts';
import { chooseRanges, publishedRanges } from './ports.ts';

const quiet = { report: () => undefined, signal: new AbortController().signal };

type More = { environment?: Record<string, string>; home?: string };

async function upOn(t: TestContext, engine: FakeEngine, more: More = {}) {
  const { home = testHome(t), environment = {} } = more;
  const up = ['up', '--parts', 'docker', '--home', home];
  const { code, stderr } = await runScript(up, { ...engine.environment, ...environment });
  const { parts } = readState(homeAt(home));
  return { code, printed: stderr.trim(), parts, endpoints: existsSync(homeAt(home).endpoints) };
}

/** One sentence with the next step, and a home that is as if nothing had been tried. */
const refused = (printed: string) => ({ code: 1, printed, parts: undefined, endpoints: false });

test('an engine with too little memory, and one without compose, are refused in one sentence', async (t) => {
  const small = fakeEngine(t, `info*) echo 2147483648;;`);
  const bare = fakeEngine(t, `info*) echo 8589934592;; compose*) exit 1;;`);
  const why = 'the container engine has 2.0 GB of memory and the system needs 4';
  assert.deepEqual(
    await upOn(t, small),
    refused(`triplock up: ${why}: give it more, or take --parts native`),
  );
  const plugin = 'docker has no compose plugin: install docker-compose-plugin';
  assert.deepEqual(await upOn(t, bare), refused(`triplock up: ${plugin}, or take --parts native`));
});

test('a port that is taken is named with its variable, and what had started is removed', async (t) => {
  // Free until the engine binds it, whatever else runs on this machine.
  const port = await freePort();
  const taken = `Error response from daemon: Bind for 127.0.0.1:${port} failed: port is already allocated`;
  const engine = fakeEngine(t, `${able} *' up '*) echo '${taken}' >&2; exit 1;;`);
  const { printed, ...rest } = await upOn(t, engine, {
    environment: { TRIPLOCK_GATEWAY_PORTS: `${port}` },
  });
  assert.equal(
    printed,
    `triplock up: port ${port} is taken: free it, or set TRIPLOCK_GATEWAY_PORTS to another`,
  );
  assert.deepEqual(rest, { code: 1, parts: undefined, endpoints: false });
  assert.ok(engine.calls().some((call) => call.endsWith('down --remove-orphans --volumes')));
});

test('a port that is taken already is named before any container starts', async (t) => {
  const engine = fakeEngine(t, `${able}`);
  const squatter = createServer().listen(0, '127.0.0.1');
  await once(squatter, 'listening');
  t.after(() => squatter.close());
  const taken = (squatter.address() as AddressInfo).port;
  const { printed } = await upOn(t, engine, {
    environment: { TRIPLOCK_GATEWAY_PORTS: String(taken) },
  });
  assert.equal(
    printed,
    `triplock up: port ${taken} for ingest-gateway is taken: end what listens there, or set TRIPLOCK_GATEWAY_PORTS to others`,
  );
  assert.equal(
    engine.calls().some((call) => call.includes(' up ')),
    false,
  );
});

test('a volume of another version is refused in the words of the step that found it', async (t) => {
  const why = 'triplock provision: postgres: the database is of another version';
  const engine = fakeEngine(t, `${able} *' logs '*) echo '${why}';; *' up '*) exit 1;;`);
  assert.deepEqual(await upOn(t, engine), refused(`triplock up: ${why}`));
});

test('ports that are no ports are refused before anything starts', async (t) => {
  const engine = fakeEngine(t, able);
  const sentence = 'TRIPLOCK_GATEWAY_PORTS: expected a port, or ports such as 18080-18081';
  const { code, printed } = await upOn(t, engine, {
    environment: { TRIPLOCK_GATEWAY_PORTS: 'http' },
  });
  assert.deepEqual({ code, printed }, { code: 2, printed: `triplock up: ${sentence}` });
  assert.ok(engine.calls().every((call) => !call.includes(' up ')));
  t.after(() => delete process.env['TRIPLOCK_GATEWAY_PORTS']);
  for (const text of ['18081-18080', '70000', '0', '1-2-3']) {
    process.env['TRIPLOCK_GATEWAY_PORTS'] = text;
    assert.throws(() => publishedRanges(openSession(homeAt('/any'), quiet), 2), {
      message: sentence,
    });
  }
});

test('replicas of another home are published where nobody listens, and stay there', async (t) => {
  const home = homeAt(testHome(t));
  const choose = async () => {
    const session = openSession(home, quiet);
    await chooseRanges(session);
    return { ranges: publishedRanges(session, 2), from: session.state.publishedFrom! };
  };
  const first = await choose();
  assert.deepEqual((await choose()).ranges, first.ranges);
  // Within what its ranges may grow to.
  const squatter = createServer().listen(first.from + 5, '127.0.0.1');
  await once(squatter, 'listening');
  t.after(() => squatter.close());
  const second = await choose();
  assert.notEqual(second.from, first.from);
  const ports = Object.values(second.ranges).flatMap((range) => range.split('-').map(Number));
  assert.equal(new Set(ports).size, ports.length);
  assert.ok(ports.every((port) => port >= second.from && port < 32_768));
});

test('an engine that ends in between is reported, and the home remembers what may be left', async (t) => {
  const engine = fakeEngine(
    t,
    `info*) grep -q ' up ' "$(dirname "$0")/calls" || echo 8589934592;; 'compose version'*) echo 2;; *' up '*) exit 1;;`,
  );
  const home = testHome(t);
  const { code, printed, parts } = await upOn(t, engine, { home });
  const next = 'start it, then call up again, or npm run down';
  assert.deepEqual(
    { code, printed, parts },
    { code: 1, printed: `triplock up: the container engine has ended: ${next}`, parts: 'docker' },
  );
  const back = fakeEngine(t, able);
  const down = await runScript(['down', '--volumes', '--home', home], back.environment);
  assert.equal(down.code, 0, down.stderr);
  assert.ok(back.calls().some((call) => call.endsWith('down --remove-orphans --volumes')));
});

/** Nobody listens there. */
const noEngine = { DOCKER_HOST: 'tcp://127.0.0.1:1' };

test('without an engine containers are refused in one sentence, and the home is free for processes', async (t) => {
  const home = testHome(t);
  const up = ['up', '--parts', 'docker', '--home', home];
  const { code, stderr } = await runScript(up, noEngine);
  const sentence = 'no container engine answers: start Docker, or take --parts native';
  assert.deepEqual({ code, stderr }, { code: 1, stderr: `triplock up: ${sentence}\n` });
  assert.equal(readState(homeAt(home)).parts, undefined);
  assert.equal(existsSync(homeAt(home).endpoints), false);
});

// The Dockerfile's two, and one that compose takes as it is.
const ofDockerfile = ['node:24.21.0-slim', testImages.pubsub];
const images = ['redis:8.2.3-alpine', ...ofDockerfile];
const needs = `*'config --images') echo redis:8.2.3-alpine; echo triplock/auditor;;`;

async function chosenOn(t: TestContext, answers: string, given: Record<string, string> = {}) {
  const { environment } = fakeEngine(t, answers);
  const before = { ...process.env };
  t.after(() => void (process.env = before));
  process.env = { ...before, ...environment, ...given };
  const printed: string[] = [];
  return { ...(await chooseParts((line) => printed.push(line))), printed: printed.join('\n') };
}

test('containers where an engine has the images, else processes', async (t) => {
  const hasThose = (those: readonly string[]) => `'image ls'*) printf '${those.join('\\n')}\\n';;`;
  const has = hasThose(images);
  const { printed, ...chosen } = await chosenOn(t, `${able} ${needs} ${has}`);
  assert.deepEqual(chosen, { parts: 'docker' });
  assert.match(printed, /^containers: .*--parts native/);
  assert.deepEqual(await chosenOn(t, 'info*) exit 1;;'), { parts: 'native', printed: '' });
  const lacking = await chosenOn(t, `${able} ${needs} ${hasThose(ofDockerfile)}`);
  assert.deepEqual(lacking, {
    parts: 'native',
    otherwise: 'docker',
    printed: 'processes rather than containers: the engine has no redis:8.2.3-alpine',
  });
});

test('an engine that is unfit is passed over with a word, and parts that are given stay', async (t) => {
  const small = await chosenOn(t, 'info*) echo 1073741824;;');
  assert.equal(small.parts, 'native');
  assert.match(small.printed, /^processes rather than containers: .* 1.0 GB of memory/);
  const given = await chosenOn(t, able, { REDIS_URL: 'redis://127.0.0.1:6379' });
  assert.deepEqual(given, { parts: 'native', printed: '' });
});

/** A part of the gcloud SDK that some store brings along. */
const program: ProgramInSdk = {
  from: 'gcloud SDK',
  file: 'bin/some-emulator',
  component: 'some-emulator',
  debian: 'google-cloud-cli-some-emulator',
  only: { platform: 'linux', name: 'Linux' },
  args: () => [],
  testVariable: 'TRIPLOCK_TEST_SOME',
};
const image = { name: 'registry.example/some:1.5.58', variable: 'SOME_IMAGE', command: [] };
const part: PartDeclaration = {
  name: 'some',
  title: 'Some emulator',
  folder: import.meta.dirname,
  given: { variable: 'SOME_EMULATOR_HOST', example: '127.0.0.1:9010' },
  port: { usual: 19_999, variable: 'TRIPLOCK_SOME_PORT' },
  addressOf: (host, port) => `${host}:${port}`,
  probe: () => Promise.resolve(),
  keeps: 'nothing',
  program,
  container: { port: 9_010, image, memoryMiB: 1, lacks: {} },
  licences: [],
};

test('tests of a store whose part is of the gcloud SDK run on that, else on an engine’s, else are left out with the reason', async (t) => {
  const before = { ...process.env };
  t.after(() => void (process.env = before));
  const chosen = async (answers: string, given: Record<string, string> = {}) => {
    process.env = { ...before, ...fakeEngine(t, answers).environment, ...given };
    const here = 'darwin';
    const found = { file: findInSdk(program, here), here } as const;
    const { on, because } = await chooseTestPart(part, program, found);
    return `${on}: ${because}`;
  };
  const onMac = 'Google ships the emulator for Linux alone and this is darwin';
  const has = `'image ls'*) echo ${image.name};;`;
  assert.equal(await chosen(has), `container: ${onMac}; an engine has its image`);
  assert.equal(await chosen('*) exit 1;;'), `none: ${onMac}, and no container engine answers`);
  const lacking = `none: ${onMac}, and the engine has no ${image.name}`;
  assert.equal(await chosen(`'image ls'*) echo redis:8.2.3-alpine;;`), lacking);
  assert.match(await chosen(has, { SOME_EMULATOR_HOST: '127.0.0.1:9010' }), /^given: /);
  assert.match(await chosen(has, { TRIPLOCK_TEST_SOME: 'none' }), /^none: .* asks for it/);
  await assert.rejects(chosen(has, { TRIPLOCK_TEST_SOME: 'other' }), /not 'other'/);
});
