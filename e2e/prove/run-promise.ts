import { run } from 'node:test';

/** What became of one test of a promise. */
export type TestResult =
  | { name: string; outcome: 'passed'; seconds: number }
  | { name: string; outcome: 'failed'; seconds: number; why: string }
  | { name: string; outcome: 'not applicable'; why: string };

/** Above the longest real test, so that it only ever ends one that hangs. */
const testTimeoutMs = 300_000;

/**
 * Runs one test file in a process of its own and reports each of its tests. A file that fails
 * outside of a test, or that has none, is reported as one that failed.
 */
export async function runPromise(path: string, signal: AbortSignal): Promise<TestResult[]> {
  const results: TestResult[] = [];
  const stream = run({ files: [path], isolation: 'process', signal, timeout: testTimeoutMs });
  for await (const { type, data } of stream) {
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
