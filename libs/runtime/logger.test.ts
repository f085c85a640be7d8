import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

test('a log line says who speaks and when, and keeps secrets to itself', () => {
  const module = new URL('logger.ts', import.meta.url).href;
  const program = `
    import { createLogger } from '${module}';
    const logger = createLogger({ service: 'gateway', instance: 'gateway-1', level: 'info' });
    const secret = 'hunter2';
    logger.info({ apiKey: secret, webhookSecret: secret, authorization: secret,
      headers: { authorization: secret }, database: { password: secret }, txnId: 't-1' }, 'done');
    logger.debug('not at this level');
  `;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  });
  assert.doesNotMatch(stdout, /hunter2|not at this level/);
  const line = JSON.parse(stdout) as Record<string, unknown>;
  assert.deepEqual(
    [line['service'], line['instance'], line['txnId'], line['msg']],
    ['gateway', 'gateway-1', 't-1', 'done'],
  );
  assert.equal(new Date(line['time'] as string).toISOString(), line['time']);
});
