import { renderTable, style } from '@triplock/operator';
import type { Proof, ProvenColumn, ProvenPromise, TestResult } from './run.ts';
import { columnName } from './stores.ts';

/** The table of promises × systems, and below it what failed and why something does not apply. */
export function renderProof({ ok, seconds, stores }: Proof): string[] {
  const names = stores[0]?.promises.map(({ promise }) => promise) ?? [];
  const cellOf = (name: string) => (store: ProvenColumn) =>
    renderCell(store.promises.find(({ promise }) => promise === name)!);
  const columns = [{ head: 'promise' }, ...stores.map((store) => ({ head: columnName(store) }))];
  const rows = names.map((name) => [name, ...stores.map(cellOf(name))]);
  const times = ['', ...stores.map((store) => `${Math.round(store.seconds)} s`)];
  const reasons = reasonsOf(stores);
  return [
    ...renderTable(columns, [...rows, times]),
    ...(reasons.length === 0 ? [] : ['', 'n/a, not applicable:', ...reasons]),
    ...failuresOf(stores),
    '',
    ok
      ? style.good(`✔ every promise that applies holds, in ${Math.round(seconds)} s`)
      : style.bad('✘ a promise failed'),
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
function reasonsOf(stores: Proof['stores']): string[] {
  const reasons = new Map<string, string[]>();
  for (const [store, promise, test] of everyTest(stores)) {
    if (test.outcome !== 'not applicable') continue;
    const what = test.name === promise ? promise : `${promise}, “${test.name}”`;
    const line = `${what}: ${test.why}`;
    reasons.set(line, [...(reasons.get(line) ?? []), store]);
  }
  return [...reasons].map(([line, on]) => `  ${line} (${on.join('; ')})`);
}

function failuresOf(stores: Proof['stores']): string[] {
  const lines = everyTest(stores).flatMap(([store, promise, test]) => {
    if (test.outcome !== 'failed') return [];
    const why = test.why.split('\n').slice(0, 20);
    const head = style.bad(`✘ ${store}: ${promise}, “${test.name}”`);
    return ['', head, ...why.map((line) => `  ${line}`)];
  });
  return lines;
}

function everyTest(stores: Proof['stores']): [string, string, TestResult][] {
  return stores.flatMap((store) =>
    store.promises.flatMap(({ promise, tests }) =>
      tests.map((test): [string, string, TestResult] => [columnName(store), promise, test]),
    ),
  );
}
