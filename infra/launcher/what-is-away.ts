import { withDeadline } from '@triplock/runtime';
import { allParts } from './parts/all-parts.ts';
import { withoutPassword } from './parts/start-parts.ts';
import { startCommand } from './start-command.ts';
import {
  probeLimitMs,
  systemStatus,
  type ProcessStatus,
  type StatusQuestion,
} from './system-status.ts';

/**
 * What of a home does not do its work now, each in one sentence that ends in the next step; empty
 * when all is well. It takes two seconds at most, also when something stands still.
 */
export async function whatIsAway(question: StatusQuestion = {}): Promise<string[]> {
  const status = await systemStatus(question);
  const isAsked = (name: string) => question.only?.includes(name) ?? true;
  const up = startCommand(status.home);
  const given = allParts.flatMap(({ name, ...part }) => {
    const address = status.endpoints?.[name];
    const isOurs = status.processes.some((each) => each.name === name);
    return address === undefined || isOurs || !isAsked(name) ? [] : [{ ...part, name, address }];
  });
  const silent = await Promise.all(
    given.map(({ name, address, probe, given: { variable } }) =>
      withDeadline(probe(address), { ms: probeLimitMs, what: name }).then(
        () => [],
        () => [`${name} at ${withoutPassword(address)}, given by ${variable}, does not answer`],
      ),
    ),
  );
  return [...status.processes.flatMap((each) => sayAway(each, up)), ...silent.flat()];
}

function sayAway({ name, state }: ProcessStatus, up: string): string[] {
  switch (state) {
    case 'ready':
      return [];
    case 'gone':
      return [`${name} is not running: \`${up}\` starts it again`];
    case 'paused':
      return [`${name} stands still: \`${up}\` lets it go on`];
    case 'not ready':
      return [`${name} is not ready: \`npm run logs -- ${name}\` tells why`];
    default:
      return state satisfies never;
  }
}
