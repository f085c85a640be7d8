import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';

const module = new URL('index.ts', import.meta.url).href;
const settings = { ADMIN_PORT: '1', INSTANCE_NAME: 'demo-1' };

/** Runs a service of its own process; `start` is the body of its wiring function. */
function spawnService(start: string, environment: Record<string, string> = {}) {
  const program = `
    import { readSettings, runService, serviceSettings } from '${module}';
    const readConfig = () => readSettings(process.env, serviceSettings);
    await runService({ name: 'demo', crashPoints: ['worker.polled', 'worker.committed'] }, readConfig, async (config, service) => {
      const closing = (name) => async () => service.logger.info('closed ' + name);
      ${start}
    });
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...settings, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const messages: string[] = [];
  const started = Promise.withResolvers<void>();
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = (JSON.parse(line) as { msg: string }).msg;
    messages.push(message);
    if (message === 'started') started.resolve();
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number, messages, errors }));
  return { kill: (signal: NodeJS.Signals) => child.kill(signal), started: started.promise, ended };
}

const staysUp = 'setInterval(() => undefined, 1000);';

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`${signal} closes what was opened, the last first, exits with 0, and may come twice`, async () => {
    const service = spawnService(`
      ${staysUp}
      service.onClose('database', closing('database'));
      service.onClose('stuck part', () => Promise.reject(new Error('does not close')));
      service.onClose('server', closing('server'));
    `);
    await service.started;
    service.kill(signal);
    service.kill(signal);
    const { code, messages } = await service.ended;
    assert.equal(code, 0);
    assert.deepEqual(messages, [
      ...['started', 'shutting down', 'closed server', 'closing failed', 'closed database'],
      'stopped',
    ]);
  });
}

test('a service that is killed leaves its compiled code for the next', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'triplock-compiled-'));
  context.after(() => rm(folder, { recursive: true }));
  const service = spawnService(staysUp, { NODE_COMPILE_CACHE: folder });
  await service.started;
  service.kill('SIGKILL');
  await service.ended;
  const kept = await readdir(folder, { recursive: true });
  assert.ok(kept.length > 50, `${kept.length} files`);
});

test('a shutdown that takes too long is given up with exit code 1', async () => {
  const service = spawnService(
    `${staysUp} service.onClose('server', () => new Promise(() => undefined));`,
    { SHUTDOWN_TIMEOUT_MS: '100' },
  );
  await service.started;
  service.kill('SIGTERM');
  const { code, messages } = await service.ended;
  assert.deepEqual([code, messages.at(-1)], [1, 'shutdown timed out']);
});

test('a boot that fails closes what it had opened and exits with 1', async () => {
  const { ended } = spawnService(`
    service.onClose('database', closing('database'));
    throw new Error('the port is taken');
  `);
  const { code, messages } = await ended;
  assert.deepEqual(
    [code, messages],
    [1, ['boot failed', 'shutting down', 'closed database', 'stopped']],
  );
});

test('settings that cannot be used are all named, and the exit code is 2', async () => {
  const wrong = { ADMIN_PORT: 'hunter2', TRIPLOCK_MODE: 'hunter2', CRASH_POINTS: 'hunter2=kill' };
  const { code, messages, errors } = await spawnService('', wrong).ended;
  assert.deepEqual([code, messages], [2, []]);
  for (const name of Object.keys(wrong)) assert.match(errors, new RegExp(`${name} is malformed`));
  assert.doesNotMatch(errors, /hunter2| at /);
});

test('crash points are refused in production, and production is what nobody asked for', async () => {
  const { code, errors } = await spawnService('', { CRASH_POINTS: 'worker.polled=kill' }).ended;
  assert.equal(code, 2);
  assert.match(errors, /CRASH_POINTS is refused, TRIPLOCK_MODE is production: .*unset it/);
});

test('a crash point that the service does not declare is refused with those that it does', async () => {
  const environment = { TRIPLOCK_MODE: 'test', CRASH_POINTS: 'worker.exploded=kill' };
  const { code, errors } = await spawnService('', environment).ended;
  assert.equal(code, 2);
  assert.match(errors, /CRASH_POINTS must name points of worker\.polled, worker\.committed/);
});

test('in test mode the planned crash points are armed', async () => {
  const { ended } = spawnService(`await service.crashPoints.reached('worker.polled');`, {
    TRIPLOCK_MODE: 'test',
    CRASH_POINTS: 'worker.polled=throw',
  });
  const { code, messages } = await ended;
  assert.deepEqual([code, messages[0]], [1, 'boot failed']);
});
