import type { AuditReport } from '@triplock/demo';
import type { Rig } from '../describe-rig.ts';
import type { Knee } from './find-knee.ts';
import type { Check } from './judge-run.ts';
import type { GuardCounts } from './read-guards.ts';
import type { K6Run } from './run-k6.ts';
import type { Reading } from './watch-system.ts';

/** What a run leaves in its folder as `report.json`, and prints under `--json`. */
export type LoadReport = {
  /** Every check holds. */
  ok: boolean;
  scenario: string;
  rate: number;
  seconds: number;
  rig: Rig & { k6: string; gateways: number };
  run: Omit<K6Run, 'moments'>;
  checks: readonly Check[];
  /** Of `ramp`. */
  knee?: Knee;
  /** What the guards caught during the run; absent where the system is elsewhere. */
  guards?: GuardCounts;
  /** Absent where the system is elsewhere. */
  audit?: Pick<AuditReport, 'ok' | 'counts' | 'drift'>;
  /** From the first request until the last stage was done, seconds. */
  drainedAfterSeconds?: number;
  moments: K6Run['moments'];
  readings: readonly Reading[];
};
