import { EventEmitter, once } from 'node:events';

/** What a worker tells of the file that it runs, in the order in which it happened. */
export type WorkerEvent =
  | { is: 'test'; test: TestEnd }
  | { is: 'figure'; text: string }
  /** The file is over, and what it left behind has been looked for. */
  | { is: 'file'; leftBehind: readonly string[]; cpuSeconds: number };

/** How one test ended; one that only holds others is told by them. */
export type TestEnd = {
  /** Its name, behind those of the tests that hold it. */
  name: string;
  /** Where it is written: `file:line`; of a file that failed as a whole without a line. */
  at: string;
  outcome: 'passed' | 'failed' | 'skipped';
  ms: number;
  /**
   * Of one that failed all that is known; of one that was skipped the reason, where it gives one.
   */
  why?: string;
};

/** What the pool asks of a worker: to run a file, by its absolute path. */
export type WorkerRequest = { run: string };

/** Tells the pool, in whose process group nobody else listens. */
export function tell(event: WorkerEvent): void {
  process.send!(event);
}

/** Where the reporter says, in the same process, that all of a file was told. */
const told = new EventEmitter();

export const fileWasTold = (): void => void told.emit('file');
export const untilFileIsTold = (): Promise<unknown> => once(told, 'file');
