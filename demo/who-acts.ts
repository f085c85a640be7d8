import { userInfo } from 'node:os';
import { UsageError } from '@triplock/launcher';

/**
 * Who does what is recorded: the name after `--by`, else the user of this machine.
 *
 * @throws UsageError for an empty name, and where the user has none, as in many containers.
 */
export function whoActs(by: string | undefined): string {
  const name = (by ?? userName() ?? '').trim();
  if (name !== '') return name;
  throw new UsageError(by === undefined ? 'say who you are: --by NAME' : '--by takes a name');
}

function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    // A user id without an entry in the list of users.
    return undefined;
  }
}
