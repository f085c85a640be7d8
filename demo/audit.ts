import { runCommand, UsageError, unreachableParts } from '@triplock/launcher';
import { isOnlyInFlight } from './audit/audit-report.ts';
import { auditSystem } from './audit/ask-auditor.ts';
import { renderAudit } from './audit/print-audit.ts';
import { withParts } from './needed-parts.ts';
import { findSystem } from './system.ts';
import { openTerminal } from './terminal/terminal.ts';
import { wholeNumber } from './whole-number.ts';

const defaultWaitSeconds = 60;

const help = `
npm run audit -- [options]

Reconciles every layer: the topic of accepted payments and refunds, the provider's own books, the
ledger, its events, what was published, the inbox and the webhooks; counts, sums per partner and
currency, and the ids that do not agree. Exit code 0 without drift, 1 with drift, also when the
provider could not be asked about cards, 2 without a verdict: the system is not up, or what is still
in flight cannot finish because a part of it is away.

  --wait N       seconds to wait for work in flight (${defaultWaitSeconds})
  --everything   lists all that the provider has, not only what is new since the last audit
  --home DIR     the instance (.triplock)
  --json         prints { ok, settledDown, counts, sums, drift, inFlight, notCompared }
  --help
`;

await runCommand({
  name: 'audit',
  help,
  options: {
    wait: { type: 'string' },
    everything: { type: 'boolean' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  run: async ({ values, interrupted }) => {
    const wait = wholeNumber(values.wait, { option: 'wait', min: 0, max: 86_400 });
    const terminal = openTerminal({ json: values.json ?? false });
    const system = await findSystem(values.home, { terminal, signal: interrupted() });
    try {
      const waitMs = (wait ?? defaultWaitSeconds) * 1_000;
      const needed = ['postgres', 'kafka'] as const;
      const listing = values.everything ? 'everything' : 'new';
      const report = await withParts(system, needed, () => auditSystem(system, waitMs, listing));
      const away = isOnlyInFlight(report) ? await unreachableParts({ home: system.home }) : [];
      if (away.length > 0) {
        throw new UsageError(['no verdict: what is in flight cannot finish', ...away].join('\n'));
      }
      for (const line of renderAudit(report)) terminal.line(line);
      terminal.result(report);
      if (!report.ok) process.exitCode = 1;
    } finally {
      terminal.clear();
      await system.close();
    }
  },
});
