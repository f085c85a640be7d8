import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Terminal } from '@triplock/demo';
import { bringUp, takeDown, withLock } from '@triplock/launcher';
import { proveHome } from '../system.ts';
import { columnName, type Column } from './choose-columns.ts';
import type { PromiseFile } from './choose-files.ts';
import { planProof, type PlannedColumn } from './plan-proof.ts';
import { runPromise, type TestResult } from './run-promise.ts';

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

type Speaking = { terminal: Terminal; signal: AbortSignal };
type Chosen = { columns: readonly Column[]; files: readonly PromiseFile[] };

/** Tries every promise on every system, each of them empty and gone afterwards. */
export async function proveStores(
  { columns, files }: Chosen,
  { terminal, signal }: Speaking,
): Promise<Proof> {
  const report = (line: string) => terminal.progress(line);
  const began = performance.now();
  // The test files find the system by it.
  process.env['TRIPLOCK_E2E_HOME'] = proveHome;
  mkdirSync(proveHome, { recursive: true });
  return withLock(join(proveHome, 'prove.lock'), { report, signal }, async () => {
    const proven: ProvenColumn[] = [];
    for (const planned of planProof(columns, files)) {
      const { column } = planned;
      const since = performance.now();
      // What an earlier one left that was killed, and what the last one had.
      await takeDown({ home: proveHome, data: 'forget', report });
      try {
        terminal.note(`${columnName(column)}: bringing a system up`);
        await bringUp({ home: proveHome, replicas: 2, ...column, report, signal });
        const promises = await provePromises(planned, { terminal, signal });
        proven.push({ ...column, seconds: secondsSince(since), promises });
      } finally {
        await takeDown({ home: proveHome, data: 'forget', report });
        terminal.clear();
      }
    }
    const held = ({ promises }: ProvenColumn) =>
      promises.every(({ outcome }) => outcome !== 'failed') &&
      promises.some(({ outcome }) => outcome === 'passed');
    return { ok: proven.every(held), seconds: secondsSince(began), stores: proven };
  });
}

async function provePromises(
  { column, promises: planned }: PlannedColumn,
  { terminal, signal }: Speaking,
): Promise<ProvenPromise[]> {
  const promises: ProvenPromise[] = [];
  const on = columnName(column);
  for (const [n, { file, whyNot }] of planned.entries()) {
    const { name, path } = file;
    terminal.progress(`${on}: ${name}, ${n + 1} of ${planned.length}`);
    const since = performance.now();
    const tests: TestResult[] =
      whyNot === undefined
        ? await runPromise(path, signal)
        : [{ name, outcome: 'not applicable', why: whyNot }];
    const proven = {
      ...{ promise: name, seconds: secondsSince(since), tests },
      outcome: outcomeOf(tests),
    };
    if (proven.outcome !== 'not applicable') {
      terminal.note(`${on}: ${name} ${proven.outcome} (${proven.seconds} s)`);
    }
    // At once, because the table comes half an hour later, or never.
    for (const test of tests) {
      if (test.outcome === 'failed') terminal.note(`  ${test.name}: ${test.why}`);
    }
    promises.push(proven);
  }
  return promises;
}

/** One that failed makes all of it fail; what is left out does not count while another held. */
function outcomeOf(tests: readonly TestResult[]): TestResult['outcome'] {
  const all = tests.map(({ outcome }) => outcome);
  if (all.includes('failed')) return 'failed';
  return all.includes('passed') ? 'passed' : 'not applicable';
}

function secondsSince(began: number): number {
  return Math.round((performance.now() - began) / 100) / 10;
}
