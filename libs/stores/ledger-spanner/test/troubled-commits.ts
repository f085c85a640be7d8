import type { Calls } from '../spanner/calls.ts';
import { status } from '../spanner/errors.ts';

/**
 * What becomes of a commit: it is done or not, and nothing is heard of it, or Spanner aborts it.
 */
export type CommitFault = 'answer lost' | 'request lost' | 'aborted';

/** Commits that go wrong as `faults` says, one after the other; they go well once it is empty. */
export function troubledCommits(calls: Calls): { commit: Calls['commit']; faults: CommitFault[] } {
  const faults: CommitFault[] = [];
  const commit: Calls['commit'] = async (request) => {
    const fault = faults.shift();
    if (fault === 'aborted') {
      await calls.rollback(request);
      throw Object.assign(new Error('aborted'), { code: status.aborted });
    }
    if (fault !== 'request lost') await calls.commit(request);
    if (fault !== undefined) throw Object.assign(new Error('lost'), { code: status.unknown });
  };
  return { commit, faults };
}
