import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  type BringUp,
  bringUp,
  checkOut,
  type Checkout,
  declarations,
  takeDown,
  usualNames,
  withLock,
} from '@triplock/launcher';
import { renderTable, style, type Terminal } from '@triplock/command';
import { Kafka, logLevel } from 'kafkajs';
import {
  type Column,
  columnName,
  type PlannedColumn,
  planProof,
  type PromiseFile,
} from './promises.ts';

/** The instance that promises are proven on; their files find it by TRIPLOCK_E2E_HOME. */
const proveHome = fileURLToPath(new URL('../../.triplock/prove', import.meta.url));

/** A promise on one system. */
export type ProvenPromise = {
  promise: string;
  seconds: number;
  outcome: TestResult['outcome'];
  tests: readonly TestResult[];
};

/** What `--json` prints. */
export type Proof = {
  /** No promise failed, and some held on every system. */
  ok: boolean;
  seconds: number;
  stores: readonly ProvenColumn[];
};

/** A system by its stores, and what became of each promise on it. */
export type ProvenColumn = Column & { seconds: number; promises: readonly ProvenPromise[] };

type Invocation = { terminal: Terminal; signal: AbortSignal };
/** `from`: the commit whose services every system begins with; this clone's without it. */
type Chosen = { columns: readonly Column[]; files: readonly PromiseFile[]; from?: string };

/** Tries every promise on every system, each of them empty and gone afterwards. */
export async function proveStores(
  { columns, files, from }: Chosen,
  { terminal, signal }: Invocation,
): Promise<Proof> {
  const report = (line: string) => terminal.progress(line);
  const note = (line: string) => terminal.note(line);
  const began = performance.now();
  // The test files find the system by it.
  process.env['TRIPLOCK_E2E_HOME'] = proveHome;
  mkdirSync(proveHome, { recursive: true });
  return withLock(join(proveHome, 'prove.lock'), { report, signal }, async () => {
    const earlier = from === undefined ? undefined : checkOutEarlier(from, note);
    const proven: ProvenColumn[] = [];
    try {
      for (const planned of planProof(columns, files)) {
        proven.push(await proveColumn(planned, earlier, { terminal, signal }));
      }
    } finally {
      earlier?.remove();
    }
    const held = ({ promises }: ProvenColumn) =>
      promises.every(({ outcome }) => outcome !== 'failed') &&
      promises.some(({ outcome }) => outcome === 'passed');
    return { ok: proven.every(held), seconds: secondsSince(began), stores: proven };
  });
}

/** Test files find it by UPGRADE_FROM. */
function checkOutEarlier(from: string, report: (line: string) => void): Checkout {
  const earlier = checkOut(from, { purpose: 'upgraded', report });
  process.env['UPGRADE_FROM'] = earlier.folder;
  return earlier;
}

async function proveColumn(
  planned: PlannedColumn,
  earlier: Checkout | undefined,
  { terminal, signal }: Invocation,
): Promise<ProvenColumn> {
  const report = (line: string) => terminal.progress(line);
  const { column } = planned;
  const since = performance.now();
  // What an earlier run left that was killed, and what the last one had.
  await takeDown({ home: proveHome, data: 'forget', report });
  try {
    const of = earlier ? ` of ${earlier.commit}` : '';
    terminal.note(`${columnName(column)}: bringing a system up${of}`);
    const wanted = { home: proveHome, replicas: 2, ...column, report, signal };
    await (earlier ? bringUpEarlier(earlier.folder, wanted) : bringUp(wanted));
    const on = columnName(column);
    const promises = await provePromises(on, planned.promises, { terminal, signal });
    return { ...column, seconds: secondsSince(since), promises };
  } finally {
    await takeDown({ home: proveHome, data: 'forget', report });
    terminal.clear();
  }
}

/** What systems had before there were fewer partitions and keys: a key for each bucket. */
export const earlierSettings = { 'outbox-dispatcher': { ORDERING_KEYS: '64' } };
const earlierPartitions = 12;

/** What brings a system up by the code in another clone. */
export async function launcherIn(folder: string): Promise<{ bringUp: typeof bringUp }> {
  const launcher = pathToFileURL(join(folder, 'infra/launcher/index.ts')).href;
  return (await import(launcher)) as { bringUp: typeof bringUp };
}

async function bringUpEarlier(folder: string, options: BringUp): Promise<void> {
  const launcher = await launcherIn(folder);
  const wanted = { ...options, settings: earlierSettings };
  const except = declarations.map(({ name }) => name);
  const { kafka } = await launcher.bringUp({ ...wanted, except });
  const brokers = kafka.split(',');
  const admin = new Kafka({ clientId: 'e2e', brokers, logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    const accepted = { topic: usualNames.acceptedTopic, count: earlierPartitions };
    await admin.createPartitions({ topicPartitions: [accepted] });
  } finally {
    await admin.disconnect();
  }
  await launcher.bringUp(wanted);
}

/** Tries promises one after the other on what runs, which `on` names, and tells of each at once. */
export async function provePromises(
  on: string,
  planned: PlannedColumn['promises'],
  { terminal, signal }: Invocation,
): Promise<ProvenPromise[]> {
  const promises: ProvenPromise[] = [];
  for (const [n, { file, whyNot }] of planned.entries()) {
    const { name, path } = file;
    terminal.progress(`${on}: ${name}, ${n + 1} of ${planned.length}`);
    const since = performance.now();
    const tests: TestResult[] =
      whyNot === undefined
        ? await runPromise(path, signal)
        : [{ name, outcome: 'not applicable', why: whyNot }];
    const proven = {
      promise: name,
      seconds: secondsSince(since),
      tests,
      outcome: outcomeOf(tests),
    };
    if (proven.outcome !== 'not applicable') {
      terminal.note(`${on}: ${name} ${proven.outcome} (${proven.seconds} s)`);
    }
    // At once, because the table comes half an hour later, or never.
    for (const test of tests) {
      for (const figure of test.figures ?? []) terminal.note(`  ${figure}`);
      if (test.outcome === 'failed') terminal.note(`  ${test.name}: ${test.why}`);
    }
    promises.push(proven);
  }
  return promises;
}

/** One that failed makes all of it fail; what is left out does not count while another held. */
export function outcomeOf(tests: readonly TestResult[]): TestResult['outcome'] {
  const all = tests.map(({ outcome }) => outcome);
  if (all.includes('failed')) return 'failed';
  return all.includes('passed') ? 'passed' : 'not applicable';
}

/** To a tenth. */
export function secondsSince(began: number): number {
  return Math.round((performance.now() - began) / 100) / 10;
}

/** What became of one test of a promise. `figures` is what it counted, such as hits of a fault. */
export type TestResult = { name: string; figures?: readonly string[] } & (
  | { outcome: 'passed'; seconds: number }
  | { outcome: 'failed'; seconds: number; why: string }
  | { outcome: 'not applicable'; why: string }
);

/** Above the longest real test on a busy machine, so that it only ever ends one that hangs. */
const testTimeoutMs = 900_000;

/**
 * Runs one test file in a process of its own and reports each of its tests. A file that fails
 * outside of a test, or that has none, is reported as one that failed.
 */
export async function runPromise(path: string, signal: AbortSignal): Promise<TestResult[]> {
  const results: TestResult[] = [];
  const stream = run({ files: [path], isolation: 'process', signal, timeout: testTimeoutMs });
  for await (const { type, data } of stream) {
    // What a test says of itself follows its end; what the runner says of all is of no file.
    if (type === 'test:diagnostic' && data.file !== undefined) {
      const last = results.pop();
      if (last) results.push({ ...last, figures: [...(last.figures ?? []), data.message] });
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    // Subtests are reported by their parents.
    if (data.nesting > 0) continue;
    results.push(resultOf(type, data as Reported));
  }
  signal.throwIfAborted();
  if (results.length === 0) {
    return [{ name: path, outcome: 'failed', seconds: 0, why: 'it has no test' }];
  }
  return results;
}

/** What the test runner says of a test; node:test types it by several shapes. */
type Reported = {
  name: string;
  skip?: string | boolean;
  details: { duration_ms: number; error?: Error & { cause?: unknown } };
};

function resultOf(type: 'test:pass' | 'test:fail', { name, skip, details }: Reported): TestResult {
  const seconds = Math.round(details.duration_ms / 100) / 10;
  if (type === 'test:fail') {
    const { cause, message } = details.error ?? { cause: undefined, message: 'it failed' };
    const why = cause instanceof Error ? cause.message : message;
    return { name, outcome: 'failed', seconds, why };
  }
  if (skip === undefined || skip === false) return { name, outcome: 'passed', seconds };
  return { name, outcome: 'not applicable', why: typeof skip === 'string' ? skip : 'skipped' };
}

/** The table of promises × systems, and below it what failed and why something does not apply. */
export function renderProof({ ok, seconds, stores }: Proof): string[] {
  return [
    ...renderTried(stores.map((store) => ({ ...store, on: columnName(store) }))),
    '',
    ok
      ? style.good(`✔ every promise that applies holds, in ${Math.round(seconds)} s`)
      : style.bad('✘ a promise failed'),
  ];
}

/** Promises as they were tried on one system, and what that is called. */
export type Tried = { on: string; seconds: number; promises: readonly ProvenPromise[] };

/** All but the last line of what is printed: one column for each system. */
export function renderTried(systems: readonly Tried[]): string[] {
  const names = systems[0]?.promises.map(({ promise }) => promise) ?? [];
  const cellOf = (name: string) => (system: Tried) =>
    renderCell(system.promises.find(({ promise }) => promise === name)!);
  const columns = [{ head: 'promise' }, ...systems.map(({ on }) => ({ head: on }))];
  const rows = names.map((name) => [name, ...systems.map(cellOf(name))]);
  const times = ['', ...systems.map(({ seconds }) => `${Math.round(seconds)} s`)];
  const reasons = reasonsOf(systems);
  return [
    ...renderTable(columns, [...rows, times]),
    ...(reasons.length === 0 ? [] : ['', 'n/a, not applicable:', ...reasons]),
    ...failuresOf(systems),
  ];
}

function renderCell({ outcome, tests, seconds }: ProvenPromise): string {
  if (outcome === 'not applicable') return 'n/a';
  const passed = tests.filter((test) => test.outcome === 'passed').length;
  const left = tests.filter((test) => test.outcome === 'not applicable').length;
  const counted = `${passed}/${tests.length - left} in ${Math.round(seconds)} s`;
  const more = left === 0 ? '' : `, ${left} n/a`;
  return outcome === 'failed' ? style.bad(`✘ ${counted}${more}`) : `✔ ${counted}${more}`;
}

/** Each reason once, with the systems that it is about. */
function reasonsOf(systems: readonly Tried[]): string[] {
  const reasons = new Map<string, string[]>();
  for (const [system, promise, test] of everyTest(systems)) {
    if (test.outcome !== 'not applicable') continue;
    const what = test.name === promise ? promise : `${promise}, “${test.name}”`;
    const line = `${what}: ${test.why}`;
    reasons.set(line, [...(reasons.get(line) ?? []), system]);
  }
  return [...reasons].map(([line, on]) => `  ${line} (${on.join('; ')})`);
}

function failuresOf(systems: readonly Tried[]): string[] {
  const lines = everyTest(systems).flatMap(([system, promise, test]) => {
    if (test.outcome !== 'failed') return [];
    const why = test.why.split('\n').slice(0, 20);
    const head = style.bad(`✘ ${system}: ${promise}, “${test.name}”`);
    return ['', head, ...why.map((line) => `  ${line}`)];
  });
  return lines;
}

function everyTest(systems: readonly Tried[]): [string, string, TestResult][] {
  return systems.flatMap(({ on, promises }) =>
    promises.flatMap(({ promise, tests }) =>
      tests.map((test): [string, string, TestResult] => [on, promise, test]),
    ),
  );
}
