import assert from 'node:assert/strict';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve, dirname } from 'node:path';
import { test } from 'node:test';
import { spawnSync } from 'node:child_process';
import { declarations } from '@triplock/launcher';
import { format, resolveConfig } from 'prettier';
import ts from 'typescript';
import type { Tree } from '@nx/devkit';
import { createTree } from '@nx/devkit/testing';
import { filesOfKinds } from './files-of-kinds.ts';
import { filesOfServices } from './files-of-services.ts';
import { formatted, generatedFiles, staleFiles } from './generated.ts';
import { consumer } from './consumer.ts';
import { addToList, LostList } from './lists.ts';
import { codeWords } from './names.mjs';
import { RefusedName } from './names.ts';
import { remove } from './remove.ts';
import { rename } from './rename.ts';
import { service } from './service.ts';
import { transaction } from './transaction.ts';

const root = resolve(import.meta.dirname, '../..');

test('what is generated is as `npm run generate` writes it', async () => {
  const stale = (await staleFiles()).map(({ path }) => path);
  const why = 'old or edited by hand: change what it is made from and run npm run generate';
  assert.deepEqual(stale, [], `${stale.join(', ')}: ${why}`);
});

test('what is generated stays as it is when it is formatted', async () => {
  const config = await resolveConfig(join(root, 'package.json'));
  for (const { path, text } of await generatedFiles()) {
    if (!path.endsWith('.yml')) continue;
    assert.equal(await format(text, { ...config, filepath: path }), text, path);
  }
});

test('a service more or less changes each file that names services, and nothing outside its marks', async (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-generated-'));
  t.after(() => rmSync(clone, { recursive: true }));
  for (const { path } of filesOfServices()) cpSync(join(root, path), join(clone, path));
  cpSync(join(root, 'services'), join(clone, 'services'), { recursive: true });
  const write = async (declared: typeof declarations) => {
    const files = await Promise.all(filesOfServices(clone, declared).map(formatted));
    for (const { path, text } of files) writeFileSync(join(clone, path), text);
    return files;
  };
  // Of its figures there is one of each name.
  const [{ way: _, ...first } = assert.fail()] = declarations;
  const named = {
    name: 'somepiece',
    role: 'triplock_somepiece',
    schema: 'somepiece',
    metrics: ['triplock_somepiece_'],
    inbox: true,
  } as const;
  const events = { does: 'receive', subscription: 'somepiece' } as const;
  const { watch: its } = declarations.find((each) => each.watch !== undefined)!;
  const watch = {
    ...its!,
    counters: { somepiece: [['triplock_somepiece_events_total']] },
    gauges: {},
    crashWindows: { 'somepiece.received': ['nothing new', 'redelivered'] },
  } as const;
  const rules = { 'somepiece-missing': { holds: 'in the end' } } as const;
  const brought = {
    'audit/checks.sql': '-- name: somepiece_missing\n-- somepiece\n',
    'audit/harms.testing.ts': '',
    'watch/watch.ts': '',
    'watch/alerts.yml': 'rules:\n  - alert: somepiece\ntests:\n  - name: somepiece\n',
    'watch/runbooks.md': '# Alerts\n\n## somepiece\n',
  };
  for (const [file, text] of Object.entries(brought)) {
    mkdirSync(join(clone, 'services/somepiece', dirname(file)), { recursive: true });
    writeFileSync(join(clone, 'services/somepiece', file), text);
  }
  for (const { path, text } of await write([
    ...declarations,
    { ...first, ...named, events, watch, rules },
  ]))
    assert.match(text, /(?<![a-z])somepiece(?![a-z])/, path);
  for (const { path, text } of await write(declarations))
    assert.equal(text, readFileSync(join(root, path), 'utf8'), path);
});

test('a file that lost its marks is refused by name', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-generated-'));
  t.after(() => rmSync(clone, { recursive: true }));
  for (const { path } of filesOfServices()) cpSync(join(root, path), join(clone, path));
  cpSync(join(root, 'services'), join(clone, 'services'), { recursive: true });
  writeFileSync(join(clone, 'docker-compose.yml'), 'services: {}\n');
  assert.throws(() => filesOfServices(clone), /docker-compose\.yml lacks the marks/);
});

/** This repository as it is. Only Nx's command writes a tree to the disk, so nothing changes. */
function repository(): Tree {
  // Nx exports no other way to it: a tree of a folder, which `createTree` makes of none.
  const FolderTree = createTree().constructor as new (root: string, isVerbose: boolean) => Tree;
  return new FolderTree(root, false);
}

/** The files that a generator wrote or changed, by path. */
async function written(tree: Tree, act: () => Promise<unknown>): Promise<Map<string, string>> {
  const textsOf = () =>
    new Map(tree.listChanges().map(({ path, content }) => [path, content?.toString() ?? '']));
  const before = textsOf();
  await act();
  return new Map([...textsOf()].filter(([path, text]) => before.get(path) !== text));
}

for (const [kind, generate] of Object.entries({ consumer, service })) {
  test(`a ${kind} is written and listed wherever a service has to be named, twice in a row`, async () => {
    const tree = repository();
    for (const name of ['somepiece', 'otherpiece']) {
      const files = await written(tree, () => generate(tree, { name }));
      for (const file of ['package.json', 'service.ts', 'config.ts', 'main.ts', 'main.test.ts'])
        assert.ok(files.has(`services/${name}/${file}`), file);
      const listing = files.get('infra/launcher/services.ts')!;
      assert.match(listing, new RegExp(`  ${name},\\n  auditor,\\n`));
      for (const [path, text] of files) assert.match(path + text, new RegExp(name), path);
      assert.doesNotMatch([...files.values()].join('\n'), /<%/);
    }
    const portOf = (name: string) =>
      /usual: (\d+_\d+)/.exec(tree.read(`services/${name}/service.ts`, 'utf8')!)![1];
    assert.notEqual(portOf('somepiece'), portOf('otherpiece'));
  });

  test(`a name that is none or is taken makes no ${kind}, and nothing is written`, async () => {
    const tree = repository();
    const refused = [
      'Somepiece',
      'l',
      'my_points',
      'class',
      'ledger',
      'refunds',
      '7up',
      'a--b',
      '',
    ];
    for (const name of refused) {
      const files = await written(tree, () =>
        assert.rejects(generate(tree, { name }), RefusedName, name),
      );
      assert.deepEqual([...files.keys()], [], name);
    }
  });

  test(`a file that reads otherwise is named, and no ${kind} is listed`, async () => {
    const tree = repository();
    tree.write('infra/launcher/services.ts', 'export const pipeline = [];\n');
    const naming = (error: Error) =>
      error instanceof LostList && error.message.startsWith('infra/launcher/services.ts has no');
    await assert.rejects(generate(tree, { name: 'somepiece' }), naming);
  });
}

test('a word of SQL makes no consumer', async () => {
  for (const name of ['order', 'user', 'grant']) {
    const tree = repository();
    await assert.rejects(consumer(tree, { name }), RefusedName, name);
  }
});

test('a bad name is refused in one sentence before anything is installed or started', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'bare-clone-'));
  t.after(() => rmSync(root, { recursive: true }));
  // What the launcher needs, and no packages: whatever else was called would fail.
  for (const name of ['launcher', 'generators']) {
    cpSync(join(import.meta.dirname, '..', name), join(root, 'infra', name), { recursive: true });
  }
  writeFileSync(join(root, '.gitignore'), 'node_modules/\n');
  mkdirSync(join(root, 'services', 'ledger-worker'), { recursive: true });
  writeFileSync(join(root, 'services', 'ledger-worker', 'main.ts'), '');
  const launcher = join(root, 'infra', 'launcher', 'triplock.mjs');
  const refused: [string[], RegExp][] = [
    [['consumer', 'My_Points'], /'My_Points' is not a name here: it takes one word of 3 to 16/],
    [['service', 'a--b'], /it takes lower-case words with a dash/],
    [['service', 'ledger-worker'], /'ledger-worker' is taken/],
    [['transaction', 'class'], /'class' is a word of JavaScript/],
    [['consumer', 'grant'], /'grant' is a word of SQL/],
    [['rename', 'Acme Pay'], /'Acme Pay' is not a name here: it takes lower-case letters/],
    [['rename', 'acme', 'pay'], /unexpected argument 'pay': npm run rename -- NAME/],
    [['rename'], /a name is missing: npm run rename -- NAME/],
    [['consumer', '--force'], /there is no option '--force'/],
    [['pipeline', 'somepiece'], /'pipeline' is no kind: it takes one of consumer, /],
  ];
  for (const [words, sentence] of refused) {
    const ran = spawnSync(process.execPath, [launcher, 'new', ...words], { encoding: 'utf8' });
    assert.equal(ran.status, 2, ran.stderr);
    assert.match(ran.stderr, sentence);
    assert.equal(ran.stderr.trim().split('\n').length, 1, ran.stderr);
  }
  assert.equal(existsSync(join(root, '.triplock')), false);
  assert.equal(existsSync(join(root, 'node_modules')), false);
});

test('the words that no name may be are those of TypeScript', () => {
  const { FirstKeyword, LastKeyword } = ts.SyntaxKind;
  const kinds = Array.from({ length: LastKeyword - FirstKeyword + 1 }, (_, n) => FirstKeyword + n);
  const words = kinds.map((kind) => ts.tokenToString(kind));
  assert.deepEqual([...codeWords].sort(), words.sort());
});

test('a kind that there is not is refused, with those that there are', () => {
  const run = (...words: string[]) =>
    spawnSync(process.execPath, [join(import.meta.dirname, 'new.ts'), ...words], {
      encoding: 'utf8',
    });
  const unknown = run('pipeline', 'somepiece');
  assert.equal(unknown.status, 2, unknown.stderr);
  assert.match(unknown.stderr, /'pipeline' is no kind: it takes one of consumer/);
  assert.match(run('consumer').stderr, /a name is missing: npm run new -- consumer NAME/);
});

/** A clone of which every kind of place has the name. */
function aClone() {
  const tree = createTree();
  tree.write('package.json', '{ "name": "triplock" }\n');
  tree.write('libs/claims/claims.ts', `import { claims } from '@triplock/launcher';\n`);
  tree.write('infra/triplock.mjs', 'export const TRIPLOCK_MODE = "Triplock";\n');
  return tree;
}

test('every spelling of the name changes, in texts and in paths', async () => {
  const tree = aClone();
  await rename(tree, { name: 'acme' });
  assert.match(tree.read('libs/claims/claims.ts', 'utf8')!, /@acme\/launcher/);
  assert.match(tree.read('infra/acme.mjs', 'utf8')!, /ACME_MODE = .Acme./);
  assert.equal(tree.exists('infra/triplock.mjs'), false);
});

test('a comment that a longer name made too wide is broken', async () => {
  const tree = aClone();
  const words = `${'word '.repeat(17)}triplock.`;
  tree.write('libs/claims/wide.ts', `// ${words}\nexport const one = 1;\n`);
  await rename(tree, { name: 'acmepaymentsandmore' });
  const lines = tree.read('libs/claims/wide.ts', 'utf8')!.trimEnd().split('\n');
  assert.ok(lines.every((line) => line.length <= 100));
  assert.match(lines[1]!, /^\/\/ .*acmepaymentsandmore\.$/);
});

test('what is no name for a fork, or taken, is refused and nothing is written', async () => {
  const refused = ['Acme', 'a', 'my-pay', 'class', 'claims', 'triplock', '7up'];
  for (const name of refused) {
    const tree = aClone();
    const before = tree.listChanges().length;
    await assert.rejects(rename(tree, { name }), RefusedName, name);
    assert.equal(tree.listChanges().length, before, name);
  }
});

/** The lists that a kind stands in, as they are in this repository. */
const lists = [
  'libs/payments/kinds.ts',
  'libs/contracts/kinds.ts',
  'services/ingest-gateway/routes/kinds.ts',
];

function workspace(): Tree {
  const tree = createTree();
  tree.write('.prettierrc', '{ "singleQuote": true, "printWidth": 100 }\n');
  for (const file of lists) tree.write(file, readFileSync(join(root, file)));
  return tree;
}

const changedPaths = (tree: Tree) => tree.listChanges().map(({ path }) => path);

test('a kind is one more line in each list, behind those that are there', async () => {
  const tree = workspace();
  await transaction(tree, { name: 'tryone' });
  await transaction(tree, { name: 'trytwo' });
  for (const file of lists) {
    const text = tree.read(file, 'utf8')!;
    assert.match(text, /cancellation,\n {2}tryone,\n {2}trytwo,\n\}/, file);
    assert.match(text, /^import \{ tryone \} from '\.\/kinds\/tryone\.ts';$/m, file);
  }
});

test('its own files speak of nothing but it, and no other file changes', async () => {
  const tree = workspace();
  const before = new Set(changedPaths(tree));
  const files = [...(await written(tree, () => transaction(tree, { name: 'tryone' }))).keys()];
  const own = files.filter((path) => !before.has(path));
  assert.deepEqual(files.filter((path) => before.has(path)).sort(), lists.toSorted());
  assert.deepEqual(own.sort(), [
    'libs/contracts/kinds/tryone.test.ts',
    'libs/contracts/kinds/tryone.ts',
    'libs/contracts/kinds/tryone.webhooks.json',
    'libs/payments/kinds/tryone.ts',
    'services/auditor/kinds/tryone.sql',
    'services/auditor/kinds/tryone.test.ts',
    'services/ingest-gateway/routes/kinds/tryone.test.ts',
    'services/ingest-gateway/routes/kinds/tryone.ts',
    'services/ledger-worker/kinds/tryone.test.ts',
  ]);
  for (const file of own) {
    const text = tree.read(file, 'utf8')!;
    assert.doesNotMatch(text, /<%|__name__/, file);
    for (const [, path] of text.matchAll(/from '(\.[^']+)'/g)) {
      const imported = join(dirname(file), path!);
      assert.ok(tree.exists(imported) || existsSync(join(root, imported)), `${file}: ${path}`);
    }
  }
});

test('a list that is not where it was is named', async () => {
  for (const file of lists) {
    const tree = workspace();
    tree.write(file, '// somebody else was here\n');
    await assert.rejects(transaction(tree, { name: 'tryone' }), (error) => {
      return error instanceof LostList && error.message.startsWith(`${file} has no `);
    });
  }
});

test('a list keeps its members, whichever way they are written', () => {
  const member = { name: 'three', from: './three.ts' };
  const list = { file: 'list.ts', constant: 'all' };
  const added = (text: string) => {
    const tree = createTree();
    tree.write(list.file, text);
    addToList(tree, list, member);
    return tree.read(list.file, 'utf8')!.replace("import { three } from './three.ts';", '').trim();
  };
  assert.equal(added('const all = [];'), 'const all = [three, ];');
  assert.equal(
    added('const all = [one, two] as const;'),
    'const all = [one, two, three, ] as const;',
  );
  assert.equal(
    added('const all = { one, } satisfies X;'),
    'const all = { one,three,  } satisfies X;',
  );
  assert.throws(() => added('const others = [];'), LostList);
});

test('a kind that lacks what it brings is told which file', (t) => {
  const clone = mkdtempSync(join(tmpdir(), 'triplock-generated-'));
  t.after(() => rmSync(clone, { recursive: true }));
  for (const { path } of filesOfKinds()) cpSync(join(root, path), join(clone, path));
  for (const folder of ['services/auditor/kinds', 'libs/contracts/kinds', 'libs/providers']) {
    cpSync(join(root, folder), join(clone, folder), { recursive: true });
  }
  for (const { path, text } of filesOfKinds(clone)) {
    assert.equal(text, readFileSync(join(root, path), 'utf8'), path);
  }
  const sql = 'services/auditor/kinds/refund.sql';
  writeFileSync(join(clone, sql), '-- A refund moves nothing.\n');
  const [checks] = filesOfKinds(clone);
  assert.match(checks!.text, /AND transactions\.kind <> 'refund'/);
  rmSync(join(clone, sql));
  assert.throws(() => filesOfKinds(clone), /services\/auditor\/kinds\/refund\.sql is not there/);
});

test('what is no noun, or taken, is refused and nothing is written', async () => {
  for (const name of ['Payout', 'pay-out', 'withdrawing', 'x', 'class', 'libs', 'kinds']) {
    const tree = workspace();
    const before = changedPaths(tree).length;
    await assert.rejects(transaction(tree, { name }), RefusedName, name);
    assert.equal(changedPaths(tree).length, before, name);
  }
});

/** A workspace in which a list imports two pieces, and another file one of them. */
function withPieces(): Tree {
  const tree = createTree();
  tree.write('.prettierrc', '{ "singleQuote": true, "printWidth": 100 }\n');
  const pieces = {
    loyalty: 'loyalty',
    guard: "ledger: 'posts',\n  loyalty",
    teller: 'callsPartners: true,\n  loyalty',
    used: 'used',
  };
  for (const [name, says] of Object.entries(pieces)) {
    tree.write(`services/${name}/package.json`, JSON.stringify({ name: `@triplock/${name}` }));
    tree.write(`services/${name}/service.ts`, `export const ${name} = {\n  ${says},\n};\n`);
  }
  tree.write(
    'infra/launcher/services.ts',
    `${Object.keys(pieces)
      .map((name) => `import { ${name} } from ${JSON.stringify(`@triplock/${name}/service`)};\n`)
      .join('')}
export const pipeline = [
  guard,
  teller,
  loyalty,
  used,
] as const;
export const first = used.name;
`,
  );
  const dependencies = Object.fromEntries(
    Object.keys(pieces).map((name) => [`@triplock/${name}`, '*']),
  );
  tree.write('infra/launcher/package.json', JSON.stringify({ name: 'launcher', dependencies }));
  tree.write('docs/operating.md', '| [loyalty](../services/loyalty/config.ts) | counts |\n');
  for (const name of ['card', 'wire']) {
    tree.write(
      `libs/providers/${name}/package.json`,
      JSON.stringify({ name: `@triplock/provider-${name}` }),
    );
    tree.write(
      `libs/providers/${name}/e2e/package.json`,
      JSON.stringify({ name: `@triplock/${name}-e2e` }),
    );
  }
  tree.write(
    'libs/providers/providers/providers.ts',
    `${['card', 'wire']
      .map((name) => `import { ${name}Provider } from '${`@triplock/provider-${name}`}';\n`)
      .join('')}
const listed = {
  card: cardProvider,
  wire: wireProvider,
} as const;
export const names = Object.keys(listed);
`,
  );
  tree.write(
    'package-lock.json',
    JSON.stringify({
      packages: {
        'libs/providers/wire': { name: '@triplock/provider-wire' },
        'libs/providers/wire/e2e': { name: '@triplock/wire-e2e' },
        'node_modules/@triplock/wire-e2e': { resolved: 'libs/providers/wire/e2e', link: true },
        'node_modules/wires': { resolved: 'https://registry.npmjs.org/wires/-/wires-1.0.0.tgz' },
      },
    }),
  );
  tree.write('docs/failures.md', mentions.join('\n'));
  return tree;
}

/** Rows that name files of a provider, of that alone, beside others, and in a sentence. */
const mentions = [
  '| it is slow | a breaker | `libs/providers/wire/e2e/slow.test.ts`, `e2e/cards.test.ts` |',
  '| it is away | a breaker | `e2e/cards.test.ts`; [wires](../libs/providers/wire/wire.test.ts) |',
  '| it returns | told late | `libs/providers/wire/wire.test.ts`, `libs/providers/wire/a.test.ts` |',
  '| it charges | once \\| no | `libs/providers/wires/wire.test.ts` |',
  '| it differs | like `libs/providers/wire/wire.ts` | `e2e/cards.test.ts` |',
  '',
];

test('a piece goes with its folder, its line and its name among packages', async () => {
  const tree = withPieces();
  await remove(tree, { name: 'loyalty' });
  assert.ok(!tree.exists('services/loyalty'));
  const list = tree.read('infra/launcher/services.ts', 'utf8')!;
  assert.doesNotMatch(list, /loyalty/);
  assert.match(list, /\[guard, teller, used\]/);
  assert.doesNotMatch(tree.read('infra/launcher/package.json', 'utf8')!, /loyalty/);
  assert.equal(tree.read('docs/operating.md', 'utf8'), '');
});

test('a provider goes with what is in its folder, and tables name none of its files', async () => {
  const tree = withPieces();
  await remove(tree, { name: 'wire' });
  assert.ok(!tree.exists('libs/providers/wire'));
  assert.doesNotMatch(tree.read('libs/providers/providers/providers.ts', 'utf8')!, /wire/);
  const { packages } = JSON.parse(tree.read('package-lock.json', 'utf8')!) as { packages: object };
  assert.deepEqual(Object.keys(packages), ['node_modules/wires']);
  const [slow, away, , others, inProse] = mentions;
  assert.deepEqual(tree.read('docs/failures.md', 'utf8')!.split('\n'), [
    slow!.replace('`libs/providers/wire/e2e/slow.test.ts`, ', ''),
    away!.replace('; [wires](../libs/providers/wire/wire.test.ts)', ''),
    others,
    inProse,
    '',
  ]);
});

test('what is a guard, used beside its list, or not there, stays, and nothing is changed', async () => {
  const refusals = {
    guard: /'guard' is a guard of the pipeline/,
    teller: /'teller' is a guard of the pipeline/,
    used: /'used' is used beside its list: take it out of infra\/launcher\/services\.ts/,
    card: /'card' is who a system charges at unless PROVIDERS names another/,
    other: /there is no 'other' to take out: there is card, guard, loyalty, teller, used, wire/,
  };
  for (const [name, message] of Object.entries(refusals)) {
    const tree = withPieces();
    const before = changedPaths(tree).length;
    await assert.rejects(remove(tree, { name }), (error) => {
      return error instanceof RefusedName && message.test(error.message);
    });
    assert.equal(changedPaths(tree).length, before, name);
  }
});
