import {
  isOnlyInFlight,
  renderAudit,
  required,
  auditWithHistory,
  readHistory,
  operatorFor,
  withDatabase,
  withParts,
  type Caller,
  recordAcknowledgement,
  whoActs,
  type Acknowledgement,
  lossOf,
  type AuditDepth,
  acknowledgements,
  askAuditor,
} from '@triplock/inspect';
import {
  CommandError,
  isMissing,
  oneOf,
  runCommand,
  UsageError,
  wholeNumber,
  openTerminal,
} from '@triplock/command';

const defaultWaitSeconds = 60;

/** As many as ten checks name at a time. */
const acknowledgedMax = 1_000;

const help = `
npm run audit -- [options]
npm run audit -- acknowledge ID... --reason TEXT [--by NAME]

Reconciles every layer: the topic of accepted payments and refunds, the provider's own journal, the
ledger, its events, what was published, the inbox and the webhooks; counts, sums per partner and
currency, and the ids that do not agree. What came to its end long ago was compared then, in slices
that are closed since, and of those some are compared again. Exit code 0 without drift, 1 with drift, also when the
provider could not be asked about cards, 2 without a result: the system is not up, or what is still
in flight cannot finish because a part of it does not work.

What waits for others is listed, with for whom and since when, and is no drift: a payment that its
customer has yet to confirm or a bank to carry out, and a webhook whose partner has no endpoint, or
one that does not take it.

What Kafka lost before it was read (accepted-lost) stays drift until somebody acknowledges it, and so
does a 202 that nothing accounts for (claim-unaccounted), a request that the auditor had read and no
worker (accepted-unaccounted), one that a worker had read and no auditor (ledger-not-accepted), and a
record whose dead letter was lost (refused-record-not-dead-lettered): that is recorded with who, when
and why. A loss is acknowledged with the claims that are laid to it by then. Of several IDs each is
recorded by itself. Harmless twice; exit code 1 when nothing of an ID was lost, or may still be read.

  --wait N       seconds to wait for work in flight (${defaultWaitSeconds})
  --full         compares every closed slice again, and not only some; one that is interrupted goes on
                 where it was
  --everything   the same, and lists all that the provider has, not only what is new to the auditor
  --history FILE takes a history as one more layer, so that the audit begins at what clients asked
                 and were answered, and ends at what came to the partners: drift is also what
                 contradicts the contract in it (history-…), and what differs from the ledger or the
                 deliveries. Which runs write one: docs/failures.md
  --reason TEXT  of an acknowledgement: what was done about the payments
  --by NAME      who acknowledges (the user of this machine)
  --home DIR     the instance on this machine (.triplock); elsewhere the settings say which system
  --json         prints { ok, settledDown, counts, sums, drift, waiting, lost, inFlight,
                 notCompared, history? }, or { outcomes: [{ id, outcome }] }
  --help

AUDITOR_URL      an auditor's operators' port, such as http://auditor:9100
DATABASE_URL     the database: to acknowledge as its owner, with --history as one who may read it
`;

/** `audit`: reconciles everything once nothing is in flight any more. */
export function audit(caller: Caller): Promise<void> {
  const options = {
    wait: { type: 'string' },
    full: { type: 'boolean' },
    everything: { type: 'boolean' },
    history: { type: 'string' },
    reason: { type: 'string' },
    by: { type: 'string' },
    json: { type: 'boolean' },
  } as const;
  const wordsMax = 1 + acknowledgedMax;
  return runCommand({ name: 'audit', help, options, wordsMax, run: runAudit }, caller.args);

  async function runAudit(asked: Asked): Promise<void> {
    const { values, words, interrupted } = asked;
    if (words.length > 0 || values.reason !== undefined || values.by !== undefined) {
      return acknowledge(caller, asked);
    }
    const history = values.history === undefined ? undefined : await readHistory(values.history);
    const wait = wholeNumber(values.wait, { option: 'wait', min: 0, max: 86_400 });
    const terminal = openTerminal({ json: values.json ?? false });
    const operator = await operatorFor(caller, { terminal, signal: interrupted() });
    const { AUDITOR_URL: auditorUrl } = required(operator.config, 'AUDITOR_URL');
    if (history !== undefined) required(operator.config, 'DATABASE_URL');
    const auditing = {
      auditorUrl,
      waitMs: (wait ?? defaultWaitSeconds) * 1_000,
      depth: depthOf(values),
      signal: operator.signal,
      progress: (text: string) => terminal.progress(text),
    };
    try {
      const layers = await withParts(operator, ['postgres', 'kafka'], () => askAuditor(auditing));
      const broken = isOnlyInFlight(layers) ? await operator.diagnose() : [];
      if (broken.length > 0) {
        throw new UsageError(['no result: what is in flight cannot finish', ...broken].join('\n'));
      }
      const report =
        history === undefined
          ? layers
          : await withDatabase(operator, { name: 'audit', parts: [] }, (database) =>
              auditWithHistory(layers, { history, database }),
            );
      for (const line of renderAudit(report)) terminal.line(line);
      terminal.result(report);
      if (!report.ok) process.exitCode = 1;
    } finally {
      terminal.clear();
    }
  }
}

/**
 * `audit acknowledge`: somebody knows of losses, which are no drift any more. Each is recorded by
 * itself: what was before one that is not there stays recorded.
 *
 * @throws UsageError before anything is opened when the words make no acknowledgement.
 */
async function acknowledge(caller: Caller, { values, words, interrupted }: Asked): Promise<void> {
  const [verb, ...ids] = words;
  oneOf(verb, { what: 'an act', words: ['acknowledge'] });
  if (ids.length === 0) throw isMissing('an ID', 'one that npm run audit names as lost');
  const losses = ids.map(lossOf);
  const why = values.reason?.trim();
  if (!why) throw isMissing('--reason', 'in words, what was done about it');
  const by = whoActs(values.by);
  const terminal = openTerminal({ json: values.json ?? false });
  const operator = await operatorFor(caller, { terminal, signal: interrupted() });
  const outcomes = await withDatabase(operator, { name: 'audit', parts: [] }, async (database) => {
    const seen: { id: string; outcome: Acknowledgement }[] = [];
    for (const { id, loss } of losses) {
      operator.signal.throwIfAborted();
      const outcome = await recordAcknowledgement(database, loss, { by, why });
      seen.push({ id, outcome });
      terminal.line(`${id}: ${acknowledgements[outcome]}`);
    }
    return seen;
  });
  terminal.result({ outcomes });
  if (outcomes.some(({ outcome }) => outcome === 'not-found')) {
    throw new CommandError('npm run audit names what was lost');
  }
}

type Asked = {
  values: {
    readonly wait?: string;
    readonly full?: boolean;
    readonly everything?: boolean;
    readonly history?: string;
    readonly reason?: string;
    readonly by?: string;
    readonly json?: boolean;
  };
  words: readonly string[];
  interrupted: () => AbortSignal;
};

function depthOf({ full, everything }: Asked['values']): AuditDepth {
  if (everything) return 'everything';
  return full ? 'full' : 'some';
}
