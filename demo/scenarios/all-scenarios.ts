import { chargedNotSettled } from './charged-not-settled.ts';
import { chargeTimedOut } from './charge-timed-out.ts';
import { claimExpired } from './claim-expired.ts';
import { dispatcherKilled } from './dispatcher-killed.ts';
import { downstreamReplayed } from './downstream-replayed.ts';
import { kafkaReplayed } from './kafka-replayed.ts';
import { keysRaceClaimsLoss } from './keys-race-claims-loss.ts';
import { redeliveredOutOfOrder } from './redelivered-out-of-order.ts';
import { claimsForgotten } from './claims-forgotten.ts';
import { retry } from './retry.ts';
import type { Scenario } from './scenario.ts';
import { twoAtOnce } from './two-at-once.ts';
import { workerKilled } from './worker-killed.ts';

/** Every scenario, in the order in which they teach. */
export const allScenarios: readonly Scenario[] = [
  retry,
  claimExpired,
  twoAtOnce,
  workerKilled,
  chargedNotSettled,
  chargeTimedOut,
  dispatcherKilled,
  downstreamReplayed,
  redeliveredOutOfOrder,
  claimsForgotten,
  keysRaceClaimsLoss,
  kafkaReplayed,
];

/** Those that `npm run demo` tells: one of each kind, so that the story stays short. */
export const storyScenarios: readonly Scenario[] = [
  retry,
  claimExpired,
  twoAtOnce,
  workerKilled,
  chargedNotSettled,
  dispatcherKilled,
  claimsForgotten,
  kafkaReplayed,
];
