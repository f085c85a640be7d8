import { isWholeSystem } from '../endpoints.ts';
import { startCommand } from '../home.ts';
import { withoutPassword } from '../parts/part.ts';
import { type ProcessStatus, systemStatus } from '../status.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run status -- [options]

Shows every process and whether it is ready. Exit code 0 when everything is, else 1.

  --json       prints addresses, demo partners and services, as endpoints.json has them
  --home DIR   the instance (.triplock)
  --help
`;

/** So that a reader of --json finds the same names whether the system is up or not. */
const nothingUp = {
  gateway: null,
  gateways: [],
  redis: null,
  kafka: null,
  postgres: null,
  pubsub: null,
  stripe: null,
  stripeWebhooks: [],
  partners: [],
  catcher: null,
  services: [],
};

await runCommand({
  name: 'status',
  help,
  options: { json: { type: 'boolean' }, home: { type: 'string' } },
  run: async ({ values }) => {
    const status = await systemStatus(values.home === undefined ? {} : { home: values.home });
    process.exitCode = status.ready ? 0 : 1;
    if (values.json) {
      const { endpoints, ...now } = status;
      process.stdout.write(`${JSON.stringify({ ...nothingUp, ...endpoints, ...now }, null, 2)}\n`);
      return;
    }
    const { endpoints, processes } = status;
    const lines = processes.map(row);
    if (endpoints && isWholeSystem(endpoints)) {
      lines.push('', `gateway   ${endpoints.gateways.join(' ')}`);
      lines.push(`postgres  ${withoutPassword(endpoints.postgres)}`);
    }
    process.stdout.write(
      `${lines.length > 0 ? lines.join('\n') : `nothing runs: start it with \`${startCommand(values.home)}\``}\n`,
    );
  },
});

function row({ name, pid, state, ports }: ProcessStatus): string {
  const shown = Object.entries(ports).map(([use, port]) => `${use} ${port}`);
  return `${name.padEnd(20)} ${state.padEnd(10)} pid ${String(pid).padEnd(8)} ${shown.join(', ')}`;
}
