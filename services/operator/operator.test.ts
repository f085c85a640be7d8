import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CommandError, UsageError, wholeNumber } from './command.ts';
import { askPart, withParts, type Unasked } from './operator.ts';
import { runOperator } from './test/run-operator.ts';

const { signal } = new AbortController();

test('work without a part that it needs is not begun, or blames the part that stopped working', async () => {
  let broken: string[] = [];
  const operator = { signal, diagnose: () => Promise.resolve(broken) };
  assert.equal(await withParts(operator, ['redis'], async () => 'done'), 'done');

  const cause = new Error('Command timed out');
  const lostMidway = withParts(operator, ['redis'], () => {
    broken = ['redis stands still'];
    return Promise.reject(cause);
  });
  await assert.rejects(lostMidway, (error: Error) => {
    assert.ok(error instanceof UsageError);
    assert.equal(error.message, 'redis stands still');
    return error.cause === cause;
  });
  let begun = false;
  const begin = async () => (begun = true);
  await assert.rejects(withParts(operator, ['redis'], begin), /redis stands still/);
  assert.equal(begun, false);
  broken = [];
  await assert.rejects(
    withParts(operator, ['redis'], () => Promise.reject(cause)),
    cause,
  );
});

test('an address that nobody answers at is reported in a sentence', async () => {
  const operator = { signal, diagnose: () => Promise.resolve([]) };
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), {
    code: 'ECONNREFUSED',
  });
  await assert.rejects(
    withParts(operator, ['postgres'], () => Promise.reject(refused)),
    (error) => error instanceof CommandError && /ECONNREFUSED/.test(error.message),
  );
  const unasked: Unasked[] = [];
  const asked = { part: 'kafka', otherwise: 0, unasked } as const;
  assert.equal(await askPart(operator, asked, () => Promise.reject(refused)), 0);
  assert.deepEqual(unasked, [{ part: 'kafka', why: 'kafka: connect ECONNREFUSED 127.0.0.1:1' }]);
});

test('every command says what to set of what it lacks, and takes --help', async () => {
  const lacking: readonly [string, ...string[]][] = [
    ['AUDITOR_URL', 'audit'],
    ['DATABASE_URL', 'trace', '37585521-60c9-8d90-a37f-2e1b8a7081e6'],
    ['DATABASE_URL', 'dead-letters', 'list'],
    ['DATABASE_URL', 'republish', '--since', '2026-01-01', '--by', 'ada'],
    ['PARTNERS_DATABASE_URL', 'partners', 'list'],
    ['DATABASE_URL', 'migrate'],
  ];
  for (const [setting, ...words] of lacking) {
    const { code, stderr } = await runOperator(words);
    assert.equal(code, 2, stderr);
    assert.ok(stderr.startsWith(`triplock ${words[0]}: ${setting} is not set: give `), stderr);
    const help = await runOperator([words[0]!, '--help']);
    assert.equal(help.code, 0);
    assert.match(help.stdout, new RegExp(`^npm run ${words[0]}[^]*\n${setting} `));
  }
  const unknown = await runOperator(['audti']);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /give a command[^]*dead-letters/);
});

const wanted = { option: 'wait', min: 0, max: 60 };

test('an option takes a whole number in its range, or is absent', () => {
  assert.equal(wholeNumber('0', wanted), 0);
  assert.equal(wholeNumber('60', wanted), 60);
  assert.equal(wholeNumber(undefined, wanted), undefined);
});

test('anything else is refused by the name of the option', () => {
  for (const text of ['61', '-1', '1.5', '1e1', '', 'ten', ' 1']) {
    assert.throws(
      () => wholeNumber(text, wanted),
      (error) => {
        return error instanceof UsageError && error.message.startsWith('--wait takes');
      },
    );
  }
});
