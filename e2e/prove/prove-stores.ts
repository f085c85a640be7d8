import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Terminal } from '@triplock/demo';
import { bringUp, takeDown, withLock, type ClaimStore, claimStores } from '@triplock/infra';
import { proveHome } from '../system.ts';
import type { PromiseFile } from './choose-files.ts';
import { runPromise, type TestResult } from './run-promise.ts';

/** A promise on one store. */
export type ProvenPromise = {
  promise: string;
  seconds: number;
  outcome: TestResult['outcome'];
  tests: readonly TestResult[];
};

/** What `--json` prints. */
export type Proof = {
  /** No promise failed, and some held on every store. */
  ok: boolean;
  seconds: number;
  stores: readonly { store: ClaimStore; seconds: number; promises: readonly ProvenPromise[] }[];
};

/** The stores among the words of `--only`, `usual` when there is none, and the words that are not. */
export function chooseStores(
  only: string | undefined,
  usual: readonly ClaimStore[],
): {
  stores: readonly ClaimStore[];
  rest: string[];
} {
  const words = (only ?? '').split(',').map((word) => word.trim());
  const asked = claimStores.filter((store) => words.includes(store));
  const rest = words.filter((word) => word !== '' && !claimStores.some((each) => each === word));
  return { stores: asked.length > 0 ? asked : usual, rest };
}

type Speaking = { terminal: Terminal; signal: AbortSignal };
type Chosen = { stores: readonly ClaimStore[]; files: readonly PromiseFile[] };

/** Tries every promise on every store, each on an empty system that is gone afterwards. */
export async function proveStores(
  { stores, files }: Chosen,
  { terminal, signal }: Speaking,
): Promise<Proof> {
  const report = (line: string) => terminal.progress(line);
  const began = performance.now();
  // The test files find the system by it.
  process.env['TRIPLOCK_E2E_HOME'] = proveHome;
  mkdirSync(proveHome, { recursive: true });
  return withLock(join(proveHome, 'prove.lock'), { report, signal }, async () => {
    const proven: Proof['stores'][number][] = [];
    for (const store of stores) {
      const since = performance.now();
      // What an earlier one left that was killed, and what the last store had.
      await takeDown({ home: proveHome, data: 'forget', report });
      try {
        terminal.note(`${store}: bringing a system up`);
        await bringUp({ home: proveHome, replicas: 2, claims: store, report, signal });
        const one = { store, isFirst: store === stores[0] };
        const promises = await provePromises(one, files, { terminal, signal });
        proven.push({ store, seconds: secondsSince(since), promises });
      } finally {
        await takeDown({ home: proveHome, data: 'forget', report });
        terminal.clear();
      }
    }
    const held = ({ promises }: Proof['stores'][number]) =>
      promises.every(({ outcome }) => outcome !== 'failed') &&
      promises.some(({ outcome }) => outcome === 'passed');
    return { ok: proven.every(held), seconds: secondsSince(began), stores: proven };
  });
}

async function provePromises(
  { store, isFirst }: { store: ClaimStore; isFirst: boolean },
  files: readonly PromiseFile[],
  { terminal, signal }: Speaking,
): Promise<ProvenPromise[]> {
  const promises: ProvenPromise[] = [];
  for (const [n, { name, path, sameOnEvery }] of files.entries()) {
    terminal.progress(`${store}: ${name}, ${n + 1} of ${files.length}`);
    const since = performance.now();
    const tests: TestResult[] =
      sameOnEvery === undefined || isFirst
        ? await runPromise(path, signal)
        : [{ name, outcome: 'not applicable', why: sameOnEvery }];
    const proven = {
      ...{ promise: name, seconds: secondsSince(since), tests },
      outcome: outcomeOf(tests),
    };
    if (proven.outcome !== 'not applicable') {
      terminal.note(`${store}: ${name} ${proven.outcome} (${proven.seconds} s)`);
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
