import { providerNames } from '@triplock/providers';
import { type Endpoints, isWholeSystem } from '../endpoints.ts';
import { startCommand } from '../home.ts';
import { withoutPassword } from '../parts/part.ts';
import {
  askClaimState,
  type ClaimState,
  describeClaims,
  type ProcessStatus,
  systemStatus,
  type SystemStatus,
} from '../status.ts';
import { runCommand } from './run-command.ts';

const help = `
npm run status -- [options]

Shows every process and whether it is ready, how often it was started again that had ended by
itself, where people and programs find the system, and what it keeps where: claims are cold after
they were lost, and it says what is left until they are warm. Exit code 0 when everything is ready,
else 1.

  --json       prints addresses, demo partners and services, as endpoints.json has them, and
               claimState: warm, cold, or null where no gateway can say; claimsLeft: what is left
               to do while they are cold, else null
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
  ...Object.fromEntries(providerNames.map((name) => [name, null])),
  providers: null,
  partners: [],
  catcher: null,
  services: [],
  claimState: null,
  claimsLeft: null,
};

await runCommand({
  name: 'status',
  help,
  options: { json: { type: 'boolean' }, home: { type: 'string' } },
  run: async ({ values }) => {
    const status = await systemStatus(values.home === undefined ? {} : { home: values.home });
    process.exitCode = status.ready ? 0 : 1;
    const { endpoints, processes, ...now } = status;
    const isWhole = endpoints !== undefined && isWholeSystem(endpoints);
    const claims = isWhole ? await askClaimState(endpoints) : undefined;
    if (values.json) {
      const claimState = claims?.state ?? null;
      const claimsLeft = claims?.state === 'cold' ? claims.left : null;
      const all = { ...nothingUp, ...endpoints, ...now, processes, claimState, claimsLeft };
      process.stdout.write(`${JSON.stringify(all, null, 2)}\n`);
      return;
    }
    const lines = processes.map(row);
    if (isWhole) {
      lines.push('', ...factsOf(endpoints, status, claims));
    }
    process.stdout.write(
      `${lines.length > 0 ? lines.join('\n') : `nothing runs: start it with \`${startCommand(values.home)}\``}\n`,
    );
  },
});

/** What a person wants to know of a system that is up. */
function factsOf(
  endpoints: Endpoints,
  { runsIn }: Pick<SystemStatus, 'runsIn'>,
  claimState: ClaimState | undefined,
): string[] {
  const { gateway, gateways, mode, claims, ledger } = endpoints;
  const how = runsIn === 'containers' ? 'docker: containers' : 'native: processes';
  const facts = [
    ['gateway', gateways.join(' ')],
    ['docs', `${gateway}/docs`],
    ['console', endpoints.console === undefined ? 'is not running' : `${endpoints.console}/`],
    ['postgres', withoutPassword(endpoints.postgres)],
    ['mode', `${mode}, ${how}`],
    ['claims', `in ${claims}, ${describeClaims(claimState)}`],
    ['ledger', `in ${ledger}`],
  ] as const;
  return facts.map(([name, fact]) => `${name.padEnd(10)}${fact}`);
}

function row({ name, pid, state, ports, restarts, lastEnd }: ProcessStatus): string {
  const shown = Object.entries(ports).map(([use, port]) => `${use} ${port}`);
  if (restarts > 0) shown.push(`started again ${restarts === 1 ? 'once' : `${restarts} times`}`);
  const why = lastEnd === undefined ? '' : `: ${lastEnd}`;
  return `${name.padEnd(20)} ${state.padEnd(10)} pid ${String(pid).padEnd(8)} ${shown.join(', ')}${why}`;
}
