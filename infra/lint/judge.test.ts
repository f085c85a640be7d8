import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { judge, oxlint, type Aspect } from './judge.ts';
import { copyOfWorkspace } from './lint-example.ts';

/** A workspace of its own that holds these files and is judged by ours. */
function aWorkspace(t: TestContext, texts: Readonly<Record<string, string>>) {
  const folder = copyOfWorkspace();
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  for (const [path, text] of Object.entries(texts)) write(path, text);
  const judged = async (options: { by?: Aspect[]; again?: boolean } = {}) => {
    const lines: string[] = [];
    const good = await judge({ ...options, folder, report: (line) => lines.push(line) });
    return { good, problems: lines.filter((line) => /^\S+\.\w+:/.test(line)), lines };
  };
  return { folder, write, judged };
}

const money = 'export const cents = 100;\n';
const fees = "import { cents } from './money.ts';\n\nexport const fee: number = cents;\n";
const dates = 'export const days = 1;\n';
const texts = { 'libs/claims/money.ts': money, 'libs/claims/fees.ts': fees };

test('what is good is not judged again until it changes, or is to be', async (t) => {
  const { judged, write } = aWorkspace(t, { ...texts, 'libs/claims/dates.ts': dates });
  const first = await judged({ by: ['rules', 'types'] });
  assert.deepEqual([first.good, first.lines[0]], [true, 'rules and types of 4 files …']);
  assert.deepEqual(await judged({ by: ['rules', 'types'] }), {
    good: true,
    problems: [],
    lines: [],
  });
  write('libs/claims/dates.ts', `${dates}export const weeks = 2;\n`);
  const changed = await judged({ by: ['rules', 'types'] });
  assert.equal(changed.lines[0], 'rules and types of libs/claims/dates.ts …');
  const again = await judged({ by: ['rules', 'types'], again: true });
  assert.equal(again.lines[0], 'rules and types of 4 files …');
});

test('a change is felt by what imports it, and told with its place until it is mended', async (t) => {
  const { judged, write } = aWorkspace(t, texts);
  assert.equal((await judged()).good, true);
  write('libs/claims/money.ts', "export const cents = '100';\n");
  for (const _ of ['found', 'found again']) {
    const { good, problems } = await judged();
    assert.equal(good, false);
    assert.match(problems.join(), /^libs\/claims\/fees\.ts:3:14: .*\(typescript\(TS2322\)\)$/);
  }
  write('libs/claims/money.ts', money);
  assert.equal((await judged()).good, true);
});

test('rules, types and format are judged apart when they are asked for apart', async (t) => {
  const { judged } = aWorkspace(t, {
    'libs/claims/rules.ts': 'export default 1;\n',
    'libs/claims/types.ts': "export const one: number = '1';\n",
    'libs/claims/format.ts': 'export const one=1\n',
  });
  for (const [aspect, problem] of [
    ['rules', /^libs\/claims\/rules\.ts:1:1: Export by name.*\(house\(named-exports\)\)$/],
    ['types', /^libs\/claims\/types\.ts:1:14: .*\(typescript\(TS2322\)\)$/],
    ['format', /^libs\/claims\/format\.ts: not formatted; npm run format mends it$/],
  ] as const) {
    const { good, problems } = await judged({ by: [aspect] });
    assert.equal(good, false);
    assert.equal(problems.length, 1, problems.join('\n'));
    assert.match(problems[0]!, problem);
  }
  assert.equal((await judged()).problems.length, 3);
});

test('settings that change have everything judged again', async (t) => {
  const total = 'export const total = Math.max(1, 2);\n';
  const { judged, write } = aWorkspace(t, { 'libs/claims/total.ts': total });
  assert.equal((await judged()).good, true);
  const settings = { extends: './tsconfig.base.json', include: ['**/*.ts'] };
  const strict = { compilerOptions: { declaration: true, isolatedDeclarations: true } };
  write('tsconfig.json', `${JSON.stringify({ ...settings, ...strict })}\n`);
  const { good, lines, problems } = await judged({ by: ['types'] });
  assert.deepEqual([good, lines[0]], [false, 'types of 2 files …']);
  assert.match(problems.join(), /^libs\/claims\/total\.ts:1:14: .*\(typescript\(TS9010\)\)$/);
});

test('a linter that does not run fails instead of letting everything pass', async (t) => {
  const { folder, judged, write } = aWorkspace(t, texts);
  await assert.rejects(oxlint(['--config', 'nowhere.json'], { cwd: folder }), /nowhere\.json/);
  write('oxlint.config.ts', 'export default { plugins: 1 };\n');
  await assert.rejects(judged(), /oxlint/);
});
