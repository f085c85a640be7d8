import { inNetwork } from './containers/places.ts';
import { homeAt } from './home.ts';
import { readState } from './state.ts';

/** What the services of a home call the machine they run on, such as in the URL of a webhook. */
export function thisMachineFor(home?: string): string {
  return readState(homeAt(home)).parts === 'docker' ? inNetwork.machine : '127.0.0.1';
}
