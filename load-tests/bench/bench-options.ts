import { wholeNumber } from '@triplock/demo';

/** What was asked for on the command line. */
export type BenchOptions = {
  /** Seconds of load of each run, on the system and on the empty POST. */
  seconds: number;
  connections: number;
  repeat: number;
};

/** The options' values.  @throws UsageError for one that is no number or out of range. */
export function readBenchOptions(values: {
  seconds?: string | undefined;
  connections?: string | undefined;
  repeat?: string | undefined;
}): BenchOptions {
  const { seconds, connections, repeat } = values;
  return {
    seconds: wholeNumber(seconds, { option: 'seconds', min: 1, max: 3_600 }) ?? 20,
    connections: wholeNumber(connections, { option: 'connections', min: 1, max: 4_096 }) ?? 64,
    repeat: wholeNumber(repeat, { option: 'repeat', min: 1, max: 100 }) ?? 3,
  };
}
