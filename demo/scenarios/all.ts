import { UsageError } from '@triplock/command';
import type { Scenario } from '../run-scenario.ts';
import { acceptedLost } from './accepted-lost.ts';
import { cancelledOrCaptured, capturedThenRefunded, capturedTwice, disputed } from './captures.ts';
import {
  chargedNotSettled,
  chargeTimedOut,
  declinedThenRetried,
  refundStorm,
  sticky500,
} from './cards.ts';
import {
  claimsForgotten,
  claimsLostInACard,
  claimsReadBack,
  keysRaceClaimsLoss,
} from './claims-loss.ts';
import { customersAct } from './customers.ts';
import { dispatcherKilled, downstreamReplayed, redeliveredOutOfOrder } from './events.ts';
import { kafkaReplayed, workerKilled } from './redelivery.ts';
import { claimExpired, retry, twoAtOnce } from './retries.ts';
import { wasItPaid } from './was-it-paid.ts';
import { workerAsleep } from './worker-asleep.ts';

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
  customersAct,
  declinedThenRetried,
  refundStorm,
  capturedTwice,
  cancelledOrCaptured,
  capturedThenRefunded,
  disputed,
  dispatcherKilled,
  downstreamReplayed,
  redeliveredOutOfOrder,
  claimsForgotten,
  claimsReadBack,
  claimsLostInACard,
  keysRaceClaimsLoss,
  wasItPaid,
  kafkaReplayed,
  acceptedLost,
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

/**
 * The scenario of that name, or every one.
 *
 * @throws UsageError that gives the names when it is not clear which.
 */
export function chooseScenarios(name: string | undefined, all: boolean): readonly Scenario[] {
  if (all && name === undefined) return allScenarios;
  if (all) throw new UsageError('give either a name or --all');
  const found = allScenarios.find((each) => each.name === name);
  if (found !== undefined) return [found];
  const known = allScenarios.map((each) => each.name);
  const names = known.join(', ');
  if (name === undefined) throw new UsageError(`give a name, --all or --list; names: ${names}`);
  const near = nearestName(name, known);
  const hint = near === undefined ? '' : `did you mean ${near}? `;
  throw new UsageError(`there is no scenario '${name}': ${hint}names: ${names}`);
}

/** The name that was probably meant; `undefined` when none is near. */
export function nearestName(meant: string, names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, changes: changesBetween(meant.toLowerCase(), name) }))
    .filter(({ name, changes }) => changes <= Math.max(2, Math.floor(name.length / 3)))
    .sort((one, other) => one.changes - other.changes);
  return nearest?.name ?? names.find((name) => meant.length >= 3 && name.startsWith(meant));
}

/** How many characters are to be changed, put in or taken out to make one word of the other. */
function changesBetween(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [line, character] of [...one].entries()) {
    const next = [line + 1];
    for (const [column, wanted] of [...other].entries()) {
      const replaced = row[column]! + (character === wanted ? 0 : 1);
      next.push(Math.min(replaced, row[column + 1]! + 1, next[column]! + 1));
    }
    row = next;
  }
  return row.at(-1)!;
}
