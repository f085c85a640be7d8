import { startAgain } from '../bring-up.ts';
import { runCommand } from '../commands/run-command.ts';
import { UsageError } from '@triplock/command';

// What an agent runs for a process that has ended by itself: NAME PID STARTED_AT IN_A_ROW, and
// --why.
await runCommand({
  name: 'start-again',
  help: 'starts a process again that ended by itself: a program of the agent',
  options: { home: { type: 'string' }, why: { type: 'string' } },
  wordsMax: 4,
  run: async ({ values, words, interrupted }) => {
    const [name, pid, startedAt, inARow] = words;
    const { why } = values;
    if (name === undefined || startedAt === undefined || values.home === undefined) {
      throw new UsageError('only the agent of a home starts this');
    }
    const ended = {
      name,
      run: { pid: Number(pid), startedAt },
      inARow: Number(inARow),
      ...(why !== undefined && { why }),
    };
    const signal = interrupted();
    process.stdout.write(`${await startAgain(ended, { home: values.home, signal })}\n`);
  },
});
