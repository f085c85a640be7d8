import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import type { DescribedError } from './logger.ts';

/** What a process prints that logs at level info and knows a `secret`. */
function printed(statements: string): string {
  const module = new URL('logger.ts', import.meta.url).href;
  const program = `
    import { createLogger } from '${module}';
    const logger = createLogger({ service: 'gateway', instance: 'gateway-1', level: 'info' });
    const secret = 'hunter2';
    ${statements}
  `;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
  });
  assert.equal(stderr, '');
  return stdout;
}

test('a log line names its service and time, and keeps secrets to itself', () => {
  const stdout = printed(`
    logger.info({ apiKey: secret, webhookSecret: secret, authorization: secret,
      headers: { authorization: secret }, database: { password: secret }, txnId: 't-1' }, 'done');
    logger.debug('not at this level');
  `);
  assert.doesNotMatch(stdout, /hunter2|not at this level/);
  const line = JSON.parse(stdout) as Record<string, unknown>;
  assert.deepEqual(
    [line['service'], line['instance'], line['txnId'], line['msg']],
    ['gateway', 'gateway-1', 't-1', 'done'],
  );
  assert.equal(new Date(line['time'] as string).toISOString(), line['time']);
});

test('of an error a log says what went wrong, and not what was worked on', () => {
  const stdout = printed(`
    const extra = { detail: 'Failing row contains (' + secret + ')', input: secret,
      command: { name: 'set', args: [secret] }, raw: { payment_intent: { client_secret: secret } },
      headers: { authorization: secret }, code: '23514', table: 'transactions' };
    const inner = Object.assign(new TypeError('inner'), extra);
    const middle = Object.assign(new AggregateError([inner], 'middle', { cause: inner }), extra);
    logger.warn({ err: Object.assign(new Error('outer', { cause: middle }), extra) }, 'failed');
    logger.warn({ err: { token: secret } }, 'thrown by somebody strange');
  `);
  assert.doesNotMatch(stdout, /hunter2/);
  const [known, strange] = stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { err: DescribedError }).err);
  const { type, message, code, table, stack, because } = known!;
  assert.deepEqual([type, message, code, table], ['Error', 'outer', '23514', 'transactions']);
  assert.match(stack!, /^Error: outer\n +at /);
  assert.deepEqual([because!.message, because!.because!.message], ['middle', 'inner']);
  assert.equal(because!.errors![0]!.type, 'TypeError');
  assert.deepEqual(strange, { type: 'object', message: 'not an error' });
});

test('one partner has a hundred lines at once, and what more it has is counted by one; others have theirs', () => {
  const stdout = printed(`
    for (let n = 0; n < 5_000; n += 1) logger.warn({ partnerId: 'acme', n }, 'refused');
    logger.error({ partnerId: 'globex' }, 'given up');
    logger.info('of nobody');
    setTimeout(() => undefined, 1_500);
  `);
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { partnerId?: string; msg: string; linesLeftOut?: number });
  const of = (wanted: string) => lines.filter(({ msg }) => msg === wanted).length;
  assert.deepEqual([of('given up'), of('of nobody')], [1, 1]);
  const shown = of('refused');
  assert.ok(shown >= 100 && shown < 200, `${shown}`);
  const told = lines.filter(({ linesLeftOut }) => linesLeftOut !== undefined);
  const { partnerId, linesLeftOut } = told[0]!;
  assert.deepEqual([told.length, partnerId, linesLeftOut], [1, 'acme', 5_000 - shown]);
});

test('an error that is its own cause is logged, and not for ever', () => {
  const stdout = printed(`
    const error = new Error('round');
    error.cause = error;
    logger.warn({ err: error }, 'failed');
  `);
  assert.match(stdout, /"message":"round"/);
});
