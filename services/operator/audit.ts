import { setTimeout as delay } from 'node:timers/promises';
import { openForCommand } from '@triplock/postgres';
import { isOnlyInFlight, renderAudit, type AuditReport } from './audit-report.ts';
import { CommandError, runCommand, UsageError, wholeNumber, wordsOf } from './command.ts';
import { required } from './config.ts';
import { operatorFor, withParts, type Caller } from './operator.ts';
import { recordAcknowledgement, whoActs } from './operator-acts.ts';
import { openTerminal } from './terminal.ts';

const defaultWaitSeconds = 60;

const help = `
npm run audit -- [options]
npm run audit -- acknowledge ID --reason TEXT [--by NAME]

Reconciles every layer: the topic of accepted payments and refunds, the provider's own journal, the
ledger, its events, what was published, the inbox and the webhooks; counts, sums per partner and
currency, and the ids that do not agree. Exit code 0 without drift, 1 with drift, also when the
provider could not be asked about cards, 2 without a result: the system is not up, or what is still
in flight cannot finish because a part of it does not work.

What Kafka lost before it was read (accepted-lost) stays drift until somebody acknowledges it: that
is recorded with who, when and why. Harmless twice; exit code 1 when nothing of that ID was lost.

  --wait N       seconds to wait for work in flight (${defaultWaitSeconds})
  --everything   lists all that the provider has, not only what is new since the last audit
  --reason TEXT  of an acknowledgement: what was done about the payments
  --by NAME      who acknowledges (the user of this machine)
  --home DIR     the instance on this machine (.triplock); elsewhere the settings say which system
  --json         prints { ok, settledDown, counts, sums, drift, inFlight, notCompared }, or { outcome }
  --help

AUDITOR_URL      an auditor's operators' port, such as http://auditor:9100
DATABASE_URL     the database, as its owner; only to acknowledge
`;

/** `audit`: reconciles everything once nothing is in flight any more. */
export function audit(caller: Caller): Promise<void> {
  const options = {
    wait: { type: 'string' },
    everything: { type: 'boolean' },
    reason: { type: 'string' },
    by: { type: 'string' },
    json: { type: 'boolean' },
  } as const;
  return runCommand({ name: 'audit', help, options, wordsMax: 2, run: runAudit }, caller.args);

  async function runAudit(asked: Asked): Promise<void> {
    const { values, words, interrupted } = asked;
    if (words.length > 0 || values.reason !== undefined || values.by !== undefined) {
      return acknowledge(caller, asked);
    }
    const wait = wholeNumber(values.wait, { option: 'wait', min: 0, max: 86_400 });
    const terminal = openTerminal({ json: values.json ?? false });
    const operator = await operatorFor(caller, { terminal, signal: interrupted() });
    const { AUDITOR_URL: auditorUrl } = required(operator.config, 'AUDITOR_URL');
    const auditing = {
      auditorUrl,
      waitMs: (wait ?? defaultWaitSeconds) * 1_000,
      provider: values.everything ? ('everything' as const) : ('new' as const),
      signal: operator.signal,
      progress: (text: string) => terminal.progress(text),
    };
    try {
      const report = await withParts(operator, ['postgres', 'kafka'], () => askAuditor(auditing));
      const broken = isOnlyInFlight(report) ? await operator.diagnose() : [];
      if (broken.length > 0) {
        throw new UsageError(['no result: what is in flight cannot finish', ...broken].join('\n'));
      }
      for (const line of renderAudit(report)) terminal.line(line);
      terminal.result(report);
      if (!report.ok) process.exitCode = 1;
    } finally {
      terminal.clear();
    }
  }
}

/**
 * `audit acknowledge`: somebody knows of a loss, which is no drift any more.
 *
 * @throws UsageError before anything is opened when the words make no acknowledgement.
 */
async function acknowledge(caller: Caller, { values, words, interrupted }: Asked): Promise<void> {
  const [verb, word] = words;
  if (verb !== 'acknowledge' || word === undefined) {
    throw new UsageError('say acknowledge and an ID (npm run audit -- --help)');
  }
  // The audit names a loss by its id, and by what and when it was behind that.
  const [, id] = /^(\d{1,18})(\/.*)?$/.exec(word) ?? [];
  if (id === undefined) throw new UsageError(`'${word}' is not what accepted-lost names`);
  const why = values.reason?.trim();
  if (!why) throw new UsageError('say what was done about it: --reason TEXT');
  const by = whoActs(values.by);
  const terminal = openTerminal({ json: values.json ?? false });
  const operator = await operatorFor(caller, { terminal, signal: interrupted() });
  const { DATABASE_URL: url } = required(operator.config, 'DATABASE_URL');
  const database = openForCommand({ url, applicationName: 'audit', connectionsMax: 1 });
  try {
    const outcome = await withParts(operator, ['postgres'], () =>
      recordAcknowledgement(database, BigInt(id), { by, why }),
    );
    if (outcome === 'not-found') throw new CommandError(`nothing was lost as ${id}`);
    const before = outcome === 'acknowledged-before' ? ' before; nothing was changed' : '';
    terminal.line(`${id}: acknowledged${before}`);
    terminal.result({ outcome });
  } finally {
    await database.close();
  }
}

type Asked = {
  values: {
    readonly wait?: string;
    readonly everything?: boolean;
    readonly reason?: string;
    readonly by?: string;
    readonly json?: boolean;
  };
  words: readonly string[];
  interrupted: () => AbortSignal;
};

/** An audit to ask for. */
export type Auditing = {
  auditorUrl: string;
  /** How long to wait for work in flight; what is still missing then counts as lost. */
  waitMs: number;
  /** Which of the provider's charges are listed: those new since the last audit, or every one. */
  provider?: 'new' | 'everything';
  signal: AbortSignal;
  progress(text: string): void;
};

/** The audit reads every layer; with a million payments that takes a while. */
const answerTimeoutMs = 60_000;
const askAgainMs = 100;

/**
 * Asks an auditor once nothing is in flight any more, or when the wait is over.
 *
 * @throws UsageError when none answers.
 */
export async function askAuditor(auditing: Auditing): Promise<AuditReport> {
  const { auditorUrl, signal, progress } = auditing;
  const waitMs = Math.max(auditing.waitMs, 1_000);
  const began = performance.now();
  // Asked for once: whoever asks again joins what is under way.
  let path = auditing.provider === 'everything' ? '/audit?everything=true' : '/audit';
  for (;;) {
    signal.throwIfAborted();
    const passedMs = performance.now() - began;
    const isOver = passedMs >= auditing.waitMs;
    try {
      const report = await fetchAudit(auditorUrl, path);
      progress(describeProgress(report, auditing.waitMs - passedMs));
      if (report.settledDown) return report;
      if (isOver) return await fetchAudit(auditorUrl, '/audit?final=true');
    } catch (error) {
      if (passedMs > waitMs) {
        const advice = `is it running, and are its database and brokers? ${wordsOf(error)}`;
        throw new UsageError(`no auditor answers at ${auditorUrl}: ${advice}`, { cause: error });
      }
    }
    path = '/audit';
    await delay(askAgainMs, undefined, { signal });
  }
}

async function fetchAudit(auditorUrl: string, path: string): Promise<AuditReport> {
  const answer = await fetch(new URL(path, auditorUrl), {
    signal: AbortSignal.timeout(answerTimeoutMs),
  });
  if (answer.ok) return (await answer.json()) as AuditReport;
  throw new CommandError(`it answered ${answer.status}: ${await answer.text()}`);
}

function describeProgress({ counts }: AuditReport, leftMs: number): string {
  const { accepted, ledger, published, deliveries } = counts;
  const left = Math.max(0, Math.round(leftMs / 1_000));
  return (
    `waiting up to ${left} s for work in flight: accepted ${accepted}, ledger ${ledger}, ` +
    `published ${published}, delivered ${deliveries}`
  );
}
