import { homeAt } from '../home.ts';
import { readState } from '../session.ts';
import { keptBy, takeDown } from '../take-down.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run down -- [options]

Stops everything: services first, which finish what they hold within 15 s, then the parts.

  --volumes    also forgets the data, credentials and logs, and says what it keeps, such as fetched
               programs, and where
  --home DIR   the instance (.triplock)
  --help
`;

await runCommand({
  name: 'down',
  help,
  options: { volumes: { type: 'boolean' }, home: { type: 'string' } },
  run: async ({ values }) => {
    const report = (line: string) => process.stdout.write(`${line}\n`);
    const home = homeAt(values.home);
    const { parts } = readState(home);
    const data = await takeDown({
      report,
      data: values.volumes ? 'forget' : 'keep',
      ...(values.home !== undefined && { home: values.home }),
    });
    if (data === 'forgotten') for (const line of keptBy(home, parts)) report(`kept: ${line}`);
    report('down');
  },
});
