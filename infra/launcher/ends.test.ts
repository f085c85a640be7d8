import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { endIn } from './ends.ts';

const runtime = import.meta.resolve('@triplock/runtime');

/** What a program that ends in its own way has said, as its log has it. */
function endOf(program: string, ...options: string[]) {
  const script = `import * as runtime from '${runtime}';
    const logger = runtime.createLogger({ service: 'a', instance: 'a-1', level: 'info' });
    logger.info('started');
    ${program}`;
  const words = [...options, '--input-type=module', '-e', script];
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, words, {
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.ok(status !== 0, `${signal}`);
  return endIn([...stdout.trim().split('\n'), ...stderr.trimEnd().split('\n')].filter(Boolean));
}

test('the reason of an end is what the process said of it: a full heap, an error, a refused setting', () => {
  const full = endOf('const all = []; for (;;) all.push({});', '--max-old-space-size=24');
  assert.equal(full.by, 'itself');
  assert.match(full.by === 'itself' ? full.why! : '', /^FATAL ERROR: .*heap out of memory/);
  const thrown = endOf(`setImmediate(() => { throw new TypeError('no such thing'); });`);
  assert.deepEqual(thrown, { by: 'itself', why: 'TypeError: no such thing' });
  const refused = endOf(`console.error('a: PORT must be a port'); process.exit(2);`);
  assert.deepEqual(refused, { by: 'itself', why: 'a: PORT must be a port' });
  const failed = endOf(
    `logger.fatal({ err: new Error('no broker') }, 'boot failed');
     logger.info({ exitCode: 1 }, 'stopped'); process.exit(1);`,
  );
  assert.deepEqual(failed, { by: 'itself', why: 'boot failed: no broker' });
});

test('one that is killed from outside has no reason, whatever it logged before', () => {
  const killed = endOf(
    `logger.error({ err: new Error('a webhook failed') }, 'told later');
     process.kill(process.pid, 'SIGKILL'); await new Promise(() => setTimeout(() => 0, 60_000));`,
  );
  assert.deepEqual(killed, { by: 'itself' });
});

test('a crash point that kills, or throws what nobody catches, is told apart from all of them', () => {
  const reach = (action: string) =>
    `await runtime.createCrashPoints([{ name: 'a.b', action: { do: '${action}' } }]).reached('a.b');`;
  assert.deepEqual(endOf(reach('kill')), { by: 'crash point' });
  assert.deepEqual(endOf(reach('throw')), { by: 'crash point' });
  const caught = `try { ${reach('throw')} } catch (err) { logger.error({ err }, 'tried later'); }`;
  const later = endOf(`${caught} throw new Error('another');`);
  assert.deepEqual(later, { by: 'itself', why: 'Error: another' });
});
