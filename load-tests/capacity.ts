import { runCommand } from '@triplock/launcher';
import { UsageError, openTerminal, wholeNumber } from '@triplock/command';
import { readBenchOptions } from './bench/measurements.ts';
import { benchSettings, noTracing } from './bench/settings.ts';
import { renderCapacity, type CapacityReport } from './capacity/report.ts';
import { sizeFor } from './capacity/sizing.ts';
import { measureStages, type Measured } from './capacity/stages.ts';
import { describeRig, onOwnSystem } from './systems.ts';

const help = `
npm run capacity -- [options]

Measures what a payment costs at each hop, with one process of each service on a backlog, and says
what that makes of a rate: how many processes, partitions, Redis threads, cores of PostgreSQL or
nodes of Spanner, what of Pub/Sub's quota, and what is full first. Then it measures the same with
more processes and says how far the prediction was off. Systems of its own come up and leave nothing
behind. docs/costs.md says how to read it. Exit code 1 when an audit finds drift.

  --tps N,N,N          payments a second (1000,10000,30000)
  --processes N,N      processes of each service to compare the prediction with (1,2,4)
  --full PERCENT       how full anything may be at that rate (60)
  --postgres-cores N   of the largest PostgreSQL that is at hand (32)
  --ordering-keys N    ORDERING_KEYS of the dispatcher (64)
  --seconds N          seconds of load that make the backlogs (10)
  --json               prints { ok, rig, means, measured, sizings }
  --help
`;

await runCommand({
  name: 'capacity',
  help,
  options: {
    tps: { type: 'string' },
    processes: { type: 'string' },
    full: { type: 'string' },
    'postgres-cores': { type: 'string' },
    'ordering-keys': { type: 'string' },
    seconds: { type: 'string' },
    json: { type: 'boolean' },
  },
  run: async ({ values, interrupted }) => {
    const number = (option: 'full' | 'postgres-cores' | 'ordering-keys', max: number) =>
      wholeNumber(values[option], { option, min: 1, max });
    const rates = wholeNumbers(values.tps ?? '1000,10000,30000', { option: 'tps', max: 1_000_000 });
    const asked = wholeNumbers(values.processes ?? '1,2,4', { option: 'processes', max: 10 });
    const means = {
      fullness: (number('full', 100) ?? 60) / 100,
      postgresCores: number('postgres-cores', 1_024) ?? 32,
      orderingKeys: number('ordering-keys', 64) ?? 64,
    };
    const { seconds } = values;
    const options = readBenchOptions({ ...(seconds !== undefined && { seconds }) });
    const terminal = openTerminal({ json: values.json ?? false });
    const own = {
      terminal,
      signal: interrupted(),
      name: 'capacity',
      settings: benchSettings(undefined, noTracing),
    } as const;
    const rig = describeRig();
    const measured: Measured[] = [];
    // One is what all is predicted from.
    for (const processes of new Set([1, ...asked])) {
      terminal.note(`${processes} of each service`);
      measured.push(
        await onOwnSystem({ ...own, replicas: processes }, (system, runOnly) =>
          measureStages({ system, terminal, runOnly, options }, processes),
        ),
      );
    }
    const report: CapacityReport = {
      ok: measured.every(({ ok }) => ok),
      rig,
      means,
      measured,
      sizings: rates.map((rate) => sizeFor(rate, measured[0]!, means)),
    };
    for (const line of renderCapacity(report)) terminal.line(line);
    terminal.result(report);
    if (!report.ok) process.exitCode = 1;
  },
});

/** @throws UsageError for what is no list of whole numbers, or one out of range. */
function wholeNumbers(text: string, { option, max }: { option: string; max: number }): number[] {
  const numbers = text.split(',').map((each) => wholeNumber(each, { option, min: 1, max }));
  if (numbers.every((each) => each !== undefined)) return numbers;
  throw new UsageError(`--${option} takes whole numbers, such as 1000,10000`);
}
