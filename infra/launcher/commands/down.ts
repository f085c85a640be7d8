import { takeDown } from '../take-down.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run down -- [options]

Stops everything: services first, which finish what they hold within 15 s, then the parts.

  --volumes    also forgets the data, credentials and logs; fetched programs stay
  --home DIR   the instance (.triplock)
  --help
`;

await runCommand({
  name: 'down',
  help,
  options: { volumes: { type: 'boolean' }, home: { type: 'string' } },
  run: async ({ values }) => {
    const report = (line: string) => process.stdout.write(`${line}\n`);
    await takeDown({
      report,
      data: values.volumes ? 'forget' : 'keep',
      ...(values.home !== undefined && { home: values.home }),
    });
    report('down');
  },
});
