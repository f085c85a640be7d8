import { UsageError } from '@triplock/command';
import { homeAt } from '../home.ts';
import { readState } from '../session.ts';
import { stopServices } from '../stop-services.ts';
import { keptBy, takeDown } from '../take-down.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run down -- [options]

Stops everything: services first, which finish what they hold within 15 s, then the parts.

  --services   stops the pipeline's services alone, in their order; the parts that they stand on go
               on, and \`npm run up\` starts what is missing
  --volumes    also forgets the data, credentials and logs, and says what it keeps, such as fetched
               programs, and where
  --home DIR   the instance (.triplock)
  --help
`;

await runCommand({
  name: 'down',
  help,
  options: {
    services: { type: 'boolean' },
    volumes: { type: 'boolean' },
    home: { type: 'string' },
  },
  run: async ({ values }) => {
    const report = (line: string) => process.stdout.write(`${line}\n`);
    if (values.services) {
      if (values.volumes) throw new UsageError('--volumes forgets what --services leaves running');
      const stopped = await stopServices(homeAt(values.home).folder, report);
      report(stopped === 0 ? 'no service runs' : 'the services are down, the parts run');
      return;
    }
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
