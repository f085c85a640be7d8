import { bringUp, bringUpParts } from '../bring-up.ts';
import {
  claimStores,
  ledgerStores,
  parseClaimStore,
  parseLedgerStore,
  parseParts,
  parseReplicas,
  replicasMax,
} from '../choices.ts';
import { isWholeSystem } from '../endpoints.ts';
import { UsageError } from '@triplock/command';
import { ledgerStoreNamed } from '@triplock/ledgers';
import { homeAt } from '../home.ts';
import { withoutPassword } from '../parts/part.ts';
import { allParts } from '../parts/start-parts.ts';
import { servicesHere } from '../service-table.ts';
import { readState } from '../session.ts';
import { askClaimState, describeClaims } from '../status.ts';
import { processNames } from '../start-services.ts';
import { providerNamed, providerNames } from '@triplock/providers';
import { runCommand } from './run-command.ts';

const partLines = allParts.map(({ name, given, ports }) => {
  const asked = ports.map(({ variable }) => variable);
  return `  ${name.padEnd(10)} ${given.variable.padEnd(22)} ${asked.join(', ')}`;
});

const simulatorPorts = providerNames.map((name) => providerNamed(name).simulator.port.variable);

const ledgerWords = ledgerStores.map((name) => {
  const forgets = ledgerStoreNamed(name).brings?.keeps === 'nothing';
  return forgets ? `${name} (in memory until \`down\`)` : name;
});

const help = `
npm run up -- [NAME …] [options]

Starts the whole system in the background and returns when it is ready. What runs already is left
alone, so it also starts again what has died. Ctrl-C stops what this call started.

  NAME …              of the services' processes only these, such as ledger-worker-1

  --replicas N        N of each service, gateways on successive ports (1 to ${replicasMax})
  --ledger STORE      where the ledger is kept: ${ledgerWords.join(' or ')}.
                      Remembered; a ledger does not move
  --claims STORE      where claims are kept: ${claimStores.join(', ')}. Remembered;
                      the ledger answers for what another store knew
  --parts HOW         native: processes; docker: containers of docker-compose.yml. Remembered; data
                      does not move from one to the other. Default: containers where an engine
                      has their images or a part is missing here, else processes
  --parts-only        only Redis, Kafka, PostgreSQL and Pub/Sub, and what the stores need
  --home DIR          an instance of its own, with its own data and ports (.triplock)
  --json              prints the endpoints; progress goes to stderr
  --help

Each part is the one that its variable gives, else a native process. Other variables ask for ports,
as TRIPLOCK_GATEWAY_PORT, TRIPLOCK_ADMIN_PORT, TRIPLOCK_CATCHER_PORT, TRIPLOCK_WEBHOOKS_PORT,
TRIPLOCK_CONSOLE_PORT and TRIPLOCK_AGENT_PORT do:

${partLines.join('\n')}

Providers' simulators have ${simulatorPorts.join(', ')}.

Cards are charged at a simulator of Stripe, or at Stripe itself when STRIPE_API_KEY gives a test
key. A payment that was started on one cannot be finished on the other. Stripe's webhooks reach a
worker with STRIPE_WEBHOOK_SECRETS, the secret that
\`stripe listen --forward-to 127.0.0.1:18070/stripe/webhooks\` prints. Without it a payment that
waits for a customer or a bank becomes final some seconds to a minute later.
`;

await runCommand({
  name: 'up',
  help,
  options: {
    replicas: { type: 'string' },
    ledger: { type: 'string' },
    claims: { type: 'string' },
    parts: { type: 'string' },
    'parts-only': { type: 'boolean' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 100,
  run: async ({ values, words, interrupted }) => {
    const ledger = parseLedgerStore(values.ledger);
    const claims = parseClaimStore(values.claims);
    const replicas = parseReplicas(values.replicas);
    const parts = parseParts(values.parts);
    refuseUnknown(words, replicas ?? readState(homeAt(values.home)).replicas);
    const startedMs = performance.now();
    const say = values.json ? process.stderr : process.stdout;
    const report = (line: string) => say.write(`${line}\n`);
    const wanted = {
      agent: 'up' as const,
      ...(words.length > 0 && { only: words }),
      report,
      signal: interrupted(),
      ...(values.home !== undefined && { home: values.home }),
      ...(replicas !== undefined && { replicas }),
      ...(claims !== undefined && { claims }),
      ...(ledger !== undefined && { ledger }),
      parts: parts ?? ('choose' as const),
    };
    const up = values['parts-only'] ? await bringUpParts(wanted) : await bringUp(wanted);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    if (values.json) process.stdout.write(`${JSON.stringify(up, null, 2)}\n`);
    const where = isWholeSystem(up) ? up.gateways.join(' ') : withoutPassword(up.postgres);
    report(`up in ${seconds} s: ${where}`);
    if (isWholeSystem(up) && up.console) report(`console: ${up.console}/`);
    if (isWholeSystem(up)) report(`claims: ${describeClaims(await askClaimState(up))}`);
    report(`npm run status | logs | down; logs and endpoints.json are in ${up.home}`);
  },
});

/** @throws UsageError for a name that no process of so many copies has. */
function refuseUnknown(words: readonly string[], replicas: number): void {
  const names = processNames(servicesHere, Math.max(1, replicas));
  const unknown = words.find((word) => !names.includes(word));
  if (unknown === undefined) return;
  throw new UsageError(`no process is called '${unknown}'; there are: ${names.sort().join(', ')}`);
}
