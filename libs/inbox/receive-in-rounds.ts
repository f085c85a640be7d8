import type { ReceivedEvent, ReceiveOutcome } from './inbox.ts';
import { roundsOf } from './rounds-of.ts';

/** What receiving each of some events came to. */
export type Outcomes = readonly (readonly [ReceivedEvent, ReceiveOutcome])[];

/**
 * Receives events by rounds in which each payment has one at most, and returns the outcomes in the
 * order given.
 */
export async function receiveInRounds(
  received: readonly ReceivedEvent[],
  receiveRound: (round: readonly ReceivedEvent[]) => Promise<Outcomes>,
): Promise<ReceiveOutcome[]> {
  // The same object given twice is two copies, each with an outcome of its own.
  const copies = received.map((each) => ({ ...each }));
  const outcomes = new Map<ReceivedEvent, ReceiveOutcome>();
  for (const round of roundsOf(copies)) {
    for (const [each, outcome] of await receiveRound(round)) outcomes.set(each, outcome);
  }
  return copies.map((each) => outcomes.get(each)!);
}

/** Receives a round that failed together, so that only what is to blame fails again. */
export async function receiveOneByOne(
  round: readonly ReceivedEvent[],
  receiveRound: (one: readonly ReceivedEvent[]) => Promise<Outcomes>,
): Promise<Outcomes> {
  const outcomes = [];
  for (const each of round) outcomes.push(...(await receiveRound([each])));
  return outcomes;
}
