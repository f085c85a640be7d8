import { isReplay, type Answer } from './send.ts';
import { tallies } from './tallies.ts';

/** Notes what a request came to that had been sent before, in those very bytes. */
export function noteDuplicate(answer: Answer, bytes: string): void {
  tallies.duplicates.add(1);
  if (answer.status === 409) tallies.duplicatesCaught.add(1);
  else if (answer.status !== 202) tallies.duplicatesUnanswered.add(1);
  else if (answer.body !== bytes) tallies.duplicatesAltered.add(1);
  else if (isReplay(answer)) tallies.duplicatesCaught.add(1);
  else tallies.duplicatesPassed.add(1);
}
