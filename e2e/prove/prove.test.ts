import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { claimStores, upgradableFrom } from '@triplock/launcher';
import { UsageError } from '@triplock/command';
import { ledgerStoreNames, type LedgerStoreName } from '@triplock/ledgers';
import {
  campaignLines,
  chooseCampaign,
  chooseColumns,
  chooseFiles,
  chooseSeed,
  type Column,
  columnName,
  oneOfTheOthers,
  planProof,
} from './promises.ts';
import { runIn } from './scratch-clone.ts';
import { type ProvenColumn, renderProof, type TestResult } from './run.ts';

test('what a program prints is told line by line while it runs', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'told-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  // Goes on when the line before was heard.
  const program = `const { existsSync } = require('node:fs');
    process.stdout.write('✔ on');
    setTimeout(() => process.stdout.write('e\\n'), 1);
    const timer = setInterval(() => {
      if (!existsSync('heard')) return;
      clearInterval(timer);
      process.stdout.write('two');
    }, 5);`;
  const told: string[] = [];
  const { signal } = new AbortController();
  const heard = (line: string) => {
    told.push(line);
    writeFileSync(join(folder, 'heard'), '');
  };
  const printed = await runIn(folder, [process.execPath, '-e', program], signal, { heard });
  assert.deepEqual(told, ['✔ one', 'two']);
  assert.equal(printed, '✔ one\ntwo');
});

test('each test of a file is reported: held, broken, left out with its reason', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'promises-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'a.test.mjs');
  const runner = `
    import { runPromise } from ${JSON.stringify(import.meta.resolve('./run.ts'))};
    const results = await runPromise(${JSON.stringify(path)}, new AbortController().signal);
    console.log(JSON.stringify(results));`;
  // By a process of its own: Node runs no test files from within one.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const resultsOf = (text: string) => {
    writeFileSync(path, `import test from 'node:test';\n${text}`);
    writeFileSync(join(folder, 'run.mjs'), runner);
    const printed = execFileSync(process.execPath, [join(folder, 'run.mjs')], {
      encoding: 'utf8',
      env,
    });
    const results = JSON.parse(printed) as TestResult[];
    return results.map((each) => [
      ...[each.outcome, 'why' in each ? each.why : each.name],
      ...(each.figures ?? []),
    ]);
  };
  assert.deepEqual(
    resultsOf(`
      test('one', (t) => t.diagnostic('12 kills'));
      test('two', () => { throw new Error('it broke') });
      test('three', (t) => t.skip('not here'));
      test('four', async (t) => { await t.test('inner', () => { throw new Error('inner') }) });
    `),
    [
      ['passed', 'one', '12 kills'],
      ['failed', 'it broke'],
      ['not applicable', 'not here'],
      ['failed', '1 subtest failed'],
    ],
  );
  const [[outcome]] = resultsOf('process.exit(3);') as [string[]];
  assert.equal(outcome, 'failed', 'a file that dies');
  const [[silent]] = resultsOf(`throw new Error('at import');`) as [string[]];
  assert.equal(silent, 'failed', 'a file that cannot be loaded');
});

test('stores and promises are chosen by one list, and an unknown word is refused', () => {
  const columns = (...choice: [only?: string, ledger?: string, full?: boolean]) => {
    const [only, ledger, full = false] = choice;
    return chooseColumns('stores', { only, ledger, full }).columns.map(columnName);
  };
  const [usual, ...others] = ledgerStoreNames;
  const elsewhere = (...claims: string[]) =>
    others.flatMap((ledger) => claims.map((each) => `${each}, ledger in ${ledger}`));
  assert.deepEqual(columns(), [...claimStores, ...elsewhere('redis')]);
  assert.deepEqual(columns('postgres, one-payment'), ['postgres', ...elsewhere('postgres')]);
  const onEach = (only?: string) => others.flatMap((ledger) => columns(only, ledger));
  assert.deepEqual(onEach(), elsewhere('redis'));
  assert.deepEqual(onEach('postgres'), elsewhere('postgres'));
  assert.deepEqual(columns(undefined, usual), claimStores);
  const everything = columns(undefined, undefined, true);
  assert.deepEqual(everything, [...claimStores, ...elsewhere(...claimStores)]);
  const count = claimStores.length - 1 + others.length;
  const numbers = Array.from({ length: count }, (_, n) => n);
  const chosen = numbers.map((n) => Object.values(oneOfTheOthers(n)).find(Boolean));
  assert.deepEqual(chosen, [...claimStores.slice(1), ...others]);
  assert.deepEqual(oneOfTheOthers(count), oneOfTheOthers(0));
  assert.throws(() => columns(undefined, 'postgre'), UsageError);
  const asked = { only: 'postgres, one-payment', ledger: undefined, full: false };
  assert.deepEqual(chooseColumns('stores', asked).rest, ['one-payment']);
  const faults = chooseColumns('faults', { ...asked, only: undefined });
  assert.deepEqual(faults.columns, [{ claims: 'redis', ledger: 'postgres' }]);
  const names = (only: readonly string[], short: boolean) =>
    chooseFiles('stores', { only, short }).map(({ name }) => name);
  assert.deepEqual(names(['one-payment'], true), ['one-payment']);
  assert.ok(names([], true).length < names([], false).length);
  assert.throws(() => names(['one-paiment'], false), UsageError);
  for (const campaign of ['faults', 'restore', 'sabotage', 'upgrade'] as const) {
    const files = chooseFiles(campaign, { only: [], short: true });
    assert.ok(files.length > 0 && files.every(({ path }) => path.includes(`/${campaign}/`)));
  }
  assert.equal(chooseCampaign('faults'), 'faults');
  for (const word of ['fault', undefined]) {
    assert.throws(
      () => chooseCampaign(word),
      (error) => {
        assert.ok(error instanceof UsageError);
        for (const name of Object.keys(campaignLines)) {
          assert.match(error.message, new RegExp(`^  ${name} +\\S.+$`, 'm'));
        }
        return true;
      },
    );
  }
  assert.equal(chooseSeed('7'), 7);
  assert.throws(() => chooseSeed('7a'), UsageError);
});

test('an upgrade begins at no commit with other baselines, because up would refuse its database', () => {
  assert.throws(() => upgradableFrom('no-such-commit'), UsageError);
  const baselines = ['--', ':/*/migrations/0001-baseline.sql'];
  const changes = ['log', '-2', '--format=%h', ...baselines];
  const printed = execFileSync('git', changes, { cwd: import.meta.dirname, encoding: 'utf8' });
  // A clone without a past has one at most.
  const [, before] = printed.trim().split('\n');
  if (before !== undefined) assert.throws(() => upgradableFrom(before), /up refuses/);
});

test('a promise is tried wherever a store may make it another one, and once where none does', () => {
  const systems: Column[] = [
    { claims: 'redis', ledger: 'postgres' },
    { claims: 'postgres', ledger: 'postgres' },
    { claims: 'redis', ledger: 'elsewhere' as LedgerStoreName },
  ];
  const [sameOnClaims, sameOnLedgers] = ['no claim is seen', 'no row is seen'];
  const tried = (file: object) =>
    planProof(systems, [{ name: 'a', path: 'a', whyNotOn: {}, ...file }]).map(
      ({ promises: [planned] }) => planned!.whyNot ?? 'tried',
    );
  assert.deepEqual(tried({}), ['tried', 'tried', 'tried']);
  assert.deepEqual(tried({ sameOnClaims }), ['tried', sameOnClaims, 'tried']);
  assert.deepEqual(tried({ sameOnLedgers }), ['tried', 'tried', sameOnLedgers]);
  const everywhere = { sameOnClaims, sameOnLedgers };
  assert.deepEqual(tried(everywhere), ['tried', sameOnClaims, sameOnLedgers]);
  const here = { whyNotOn: { postgres: 'not here' }, ...everywhere };
  assert.deepEqual(tried(here), ['not here', 'not here', 'tried']);
});

test('the table keeps every store apart, each reason once, and what failed', () => {
  const passed: TestResult = { name: 'it holds', outcome: 'passed', seconds: 2 };
  const broken: TestResult = { name: 'it holds', outcome: 'failed', seconds: 2, why: 'two rows' };
  const left: TestResult = { name: 'a', outcome: 'not applicable', why: 'no claim there' };
  const on = (claims: Column['claims'], result: TestResult): ProvenColumn => ({
    claims,
    ledger: 'postgres',
    seconds: 60,
    promises: [
      { promise: 'a', seconds: 0, outcome: left.outcome, tests: [left] },
      { promise: 'b', seconds: 2, outcome: result.outcome, tests: [result] },
    ],
  });
  const stores = [on('redis', passed), on('postgres', broken)];
  const lines = renderProof({ ok: false, seconds: 120, stores }).map(stripVTControlCharacters);
  assert.match(lines[1]!, /^a +n\/a +n\/a$/);
  assert.match(lines[2]!, /^b +✔ 1\/1 in 2 s +✘ 0\/1 in 2 s$/);
  assert.ok(lines.includes('  a: no claim there (redis; postgres)'), lines.join('\n'));
  assert.ok(lines.includes('✘ postgres: b, “it holds”'));
  assert.ok(lines.includes('  two rows'));
  assert.equal(lines.at(-1), '✘ a promise failed');
});
