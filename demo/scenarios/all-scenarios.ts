import { chargedNotSettled } from './charged-not-settled.ts';
import { chargeTimedOut } from './charge-timed-out.ts';
import { claimExpired } from './claim-expired.ts';
import { claimsForgotten } from './claims-forgotten.ts';
import { claimsLostInACard } from './claims-lost-in-a-card.ts';
import { declinedThenRetried } from './declined-then-retried.ts';
import { dispatcherKilled } from './dispatcher-killed.ts';
import { downstreamReplayed } from './downstream-replayed.ts';
import { kafkaReplayed } from './kafka-replayed.ts';
import { keysRaceClaimsLoss } from './keys-race-claims-loss.ts';
import { redeliveredOutOfOrder } from './redelivered-out-of-order.ts';
import { refundStorm } from './refund-storm.ts';
import { retry } from './retry.ts';
import type { Scenario } from './scenario.ts';
import { sticky500 } from './sticky-500.ts';
import { twoAtOnce } from './two-at-once.ts';
import { workerAsleep } from './worker-asleep.ts';
import { workerKilled } from './worker-killed.ts';

/** Every scenario, in the order in which they teach. */
export const allScenarios: readonly Scenario[] = [
  retry,
  claimExpired,
  twoAtOnce,
  workerKilled,
  chargedNotSettled,
  chargeTimedOut,
  sticky500,
  workerAsleep,
  declinedThenRetried,
  refundStorm,
  dispatcherKilled,
  downstreamReplayed,
  redeliveredOutOfOrder,
  claimsForgotten,
  claimsLostInACard,
  keysRaceClaimsLoss,
  kafkaReplayed,
];

/** Those of `npm run demo`: one of each kind, so that the story stays short. */
export const storyScenarios: readonly Scenario[] = [
  retry,
  claimExpired,
  twoAtOnce,
  workerKilled,
  chargedNotSettled,
  chargeTimedOut,
  dispatcherKilled,
  claimsForgotten,
  kafkaReplayed,
];
