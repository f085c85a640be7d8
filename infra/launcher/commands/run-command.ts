import { runCommand as run, type Command, type Options } from '@triplock/command';
import { takeUpContainers } from '../containers/take-up.ts';

export type { Command };

/** Runs a command; one that takes `--home` finds there what `docker compose up` brought up. */
export function runCommand<const Wanted extends Options>(command: Command<Wanted>): Promise<void> {
  return run({
    ...command,
    run: async (input) => {
      if ('home' in command.options) {
        const { home } = input.values as { home?: string };
        await takeUpContainers(home, (line) => process.stderr.write(`${line}\n`));
      }
      await command.run(input);
    },
  });
}
