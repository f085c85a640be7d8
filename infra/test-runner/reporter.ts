import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';
import { fileWasTold, tell } from './events.ts';

type Ended = Extract<TestEvent, { type: 'test:pass' | 'test:fail' }>;

/**
 * Tells the pool what becomes of each test of a worker, whose files are its outermost suites. Node
 * takes it by `--test-reporter`; it prints nothing.
 */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  /** The names of what is around the next test, by how deep it is. */
  const around: string[] = [];
  for await (const event of events) {
    const { type, data } = event;
    if (type === 'test:start') around[data.nesting] = data.name;
    // What a test counted.
    if (type === 'test:diagnostic') tell({ is: 'figure', text: data.message });
    if (type === 'test:pass' || type === 'test:fail') {
      tellEnd(event, around.slice(1, data.nesting));
      if (data.nesting === 0) fileWasTold();
    }
  }
  yield '';
}

function tellEnd({ type, data }: Ended, around: readonly string[]): void {
  const error = type === 'test:fail' ? data.details.error : undefined;
  const failedInside = error !== undefined && failureType(error) === 'subtestsFailed';
  const skipped = data.skip ?? data.todo;
  const isSkipped = skipped !== undefined && skipped !== false;
  const isAround = error === undefined && data.details.type === 'suite' && !isSkipped;
  if (failedInside || isAround) return;
  // One that is yet to be done may fail, as `node --test` has it.
  const isFailed = error !== undefined && (data.todo === undefined || data.todo === false);
  const why = isFailed ? inspect(error.cause ?? error, { depth: 8 }) : skipped;
  tell({
    is: 'test',
    test: {
      ...(data.nesting === 0
        ? { name: 'the file as a whole', at: data.name }
        : { name: [...around, data.name].join(' > '), at: `${data.file ?? ''}:${data.line ?? 0}` }),
      outcome: isFailed ? 'failed' : isSkipped ? 'skipped' : 'passed',
      ms: data.details.duration_ms,
      ...(typeof why === 'string' && { why }),
    },
  });
}

function failureType(error: Error): unknown {
  return (error as Error & { failureType?: unknown }).failureType;
}
