import { runCommand } from '@triplock/infra';
import { auditSystem } from './audit/ask-auditor.ts';
import { renderAudit } from './audit/print-audit.ts';
import { findSystem } from './system.ts';
import { openTerminal } from './terminal/terminal.ts';
import { wholeNumber } from './whole-number.ts';

const defaultWaitSeconds = 60;

const help = `
npm run audit -- [options]

Reconciles every layer: the topic of accepted payments, the ledger, its events, what was published,
the inbox and the webhooks; counts, sums per partner and currency, and the ids that do not agree.
Exit code 0 without drift, 1 with drift, 2 when the system is not up.

  --wait N     seconds to wait for work in flight (${defaultWaitSeconds})
  --home DIR   the instance (.triplock)
  --json       prints { ok, settledDown, counts, sums, drift }
  --help
`;

await runCommand({
  name: 'audit',
  help,
  options: { wait: { type: 'string' }, home: { type: 'string' }, json: { type: 'boolean' } },
  run: async ({ values, interrupted }) => {
    const wait = wholeNumber(values.wait, { option: 'wait', min: 0, max: 86_400 });
    const terminal = openTerminal({ json: values.json ?? false });
    const system = await findSystem(values.home, { terminal, signal: interrupted() });
    try {
      const report = await auditSystem(system, (wait ?? defaultWaitSeconds) * 1_000);
      for (const line of renderAudit(report)) terminal.line(line);
      terminal.result(report);
      if (!report.ok) process.exitCode = 1;
    } finally {
      terminal.clear();
      await system.close();
    }
  },
});
