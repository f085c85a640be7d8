import { ledgerStoreWords } from '@triplock/ledgers';
import {
  CommandError,
  isMissing,
  oneOf,
  runCommand,
  timeOf,
  UsageError,
  count,
  openTerminal,
  renderList,
  toJson,
  type Terminal,
} from '@triplock/command';
import {
  describeDismissal,
  describeLetterAct,
  describeRedrive,
  dismiss,
  dismissableOf,
  redrive,
  redriveWindow,
  type DismissableId,
  type RedriveRequest,
  type WebhookWindow,
  listDeadLetters,
  parseDeadLetterId,
  renderDeadLetterId,
  showDeadLetter,
  type DeadLetterId,
  type DeadLetterSources,
  type Wanted,
  describeCopyUntil,
  readCopyUntil,
  operatorFor,
  withDatabase,
  type Caller,
  type Operator,
  whoActs,
  type Actor,
  sourcesOf,
  refuseWhatCannotBeRedriven,
} from '@triplock/inspect';

const help = `
npm run dead-letters -- list [--dismissed] [options]
npm run dead-letters -- show ID [options]
npm run dead-letters -- redrive ID... [options]
npm run dead-letters -- redrive --partner P [--since T] [--until T] [options]
npm run dead-letters -- dismiss ID... --why TEXT [options]

What could not go on and was set aside: records that are no payment (kafka:<partition>:<offset> of
the dead-letter topic), events that cannot be published (outbox:<event id>), webhooks that were given
up (webhook:<delivery id>), messages that a consumer refused (refused:<consumer>:<message id>), and
payments and refunds that have been pending for an hour, or for 25 where a customer or a bank may be at
work, or for eight days where a partner holds a card's money (transaction:<id>; the workers' log says
why). Redriving gives it back to where it came from, is recorded with who, when and why, and is
harmless twice; a message goes to every consumer. Dismissing leaves a record, a webhook or a message
where it is: it is listed no more, and the audit does not say that it waits. Exit code 1 when an ID is
not there, 2 when the system or a part of it is not up.

  --partner P  all webhooks of this partner that were given up
  --since T    only those made from then on: 2026-11-20T08:00:00Z, or a day
  --until T    only those made before then
  --dismissed  those that were dismissed, with who, when and why
  --why TEXT   why it is redriven or dismissed
  --by NAME    who does it (the user of this machine)
  --again      also what was redriven or dismissed before
  --home DIR   the instance on this machine (.triplock); elsewhere the settings say which system
  --json       prints { letters }, the dead letter, { results }, or { partner, since, until, redriven }
  --help

DATABASE_URL   the database, as its owner
KAFKA_BROKERS  some brokers
KAFKA_TLS, KAFKA_USERNAME, KAFKA_PASSWORD, KAFKA_SASL  how this logs in to them
PUBSUB_PROJECT_ID  for refused messages: whose events topic they go to; PUBSUB_EMULATOR_HOST
LEDGER_STORE   where the ledger is: ${ledgerStoreWords}
`;

const verbs = ['list', 'show', 'redrive', 'dismiss'] as const;
/** Where one is to be had. */
const anyId = 'one that npm run dead-letters -- list shows';

/** What a command line asks for. */
type Action =
  | { verb: 'list'; wanted: Wanted }
  | { verb: 'show'; id: DeadLetterId }
  | { verb: 'redrive'; ids: readonly DeadLetterId[]; request: RedriveRequest }
  | { verb: 'redrive-window'; window: WebhookWindow; actor: Actor }
  | { verb: 'dismiss'; ids: readonly DismissableId[]; actor: Actor };

/** `dead-letters`: lists what was set aside, shows it and gives it back. */
export function deadLetters(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'dead-letters',
      help,
      options: {
        why: { type: 'string' },
        by: { type: 'string' },
        again: { type: 'boolean' },
        dismissed: { type: 'boolean' },
        partner: { type: 'string' },
        since: { type: 'string' },
        until: { type: 'string' },
        json: { type: 'boolean' },
      },
      wordsMax: 1_001,
      run: async ({ values, words, interrupted }) => {
        const action = actionOf(words, values);
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        if (action.verb === 'redrive') refuseWhatCannotBeRedriven(operator.config, action.ids);
        await withSources(operator, (sources) => act(sources, action, terminal));
      },
    },
    caller.args,
  );
}

/** @throws UsageError before anything is opened when the words make no action. */
function actionOf([word, ...words]: readonly string[], asked: Asked): Action {
  const verb = oneOf(word, { what: 'an act', words: verbs });
  const window = windowOf(asked);
  if (window !== undefined && (verb !== 'redrive' || words.length > 0)) {
    throw new UsageError('--partner goes with redrive, and without an ID');
  }
  if (asked.dismissed && verb !== 'list') throw new UsageError('--dismissed goes with list');
  const actor = () => ({ by: whoActs(asked.by), why: asked.why?.trim() || null });
  const ids = words.map(parseDeadLetterId);
  const [first] = ids;
  switch (verb) {
    case 'list':
      if (first !== undefined) throw new UsageError('list takes no ID');
      return { verb, wanted: asked.dismissed ? 'dismissed' : 'waiting' };
    case 'show':
      if (first === undefined) throw isMissing('an ID', anyId);
      if (ids.length > 1) throw new UsageError('show takes one ID');
      return { verb, id: first };
    case 'redrive': {
      if (window !== undefined) return { verb: 'redrive-window', window, actor: actor() };
      if (first === undefined) throw isMissing('an ID, or --partner', anyId);
      return { verb, ids, request: { ...actor(), again: asked.again ?? false } };
    }
    case 'dismiss':
      if (first === undefined) throw isMissing('an ID', anyId);
      if (actor().why === null) throw isMissing('--why', 'in words, why nothing more is done');
      return { verb, ids: ids.map(dismissableOf), actor: actor() };
    default:
      return verb satisfies never;
  }
}

type Asked = {
  readonly why?: string;
  readonly by?: string;
  readonly again?: boolean;
  readonly dismissed?: boolean;
  readonly partner?: string;
  readonly since?: string;
  readonly until?: string;
};

function windowOf({ partner, ...asked }: Asked): WebhookWindow | undefined {
  const [since, until] = (['since', 'until'] as const).map((option) => {
    return timeOf(asked[option], { option });
  });
  if (partner === undefined) {
    if (since === undefined && until === undefined) return undefined;
    throw new UsageError('--since and --until go with --partner');
  }
  if (since !== undefined && until !== undefined && since >= until) {
    throw new UsageError('--until is not after --since');
  }
  return { partner, ...(since && { since }), ...(until && { until }) };
}

/** Only the owner of the database may change what every service has its own part of. */
async function withSources(
  operator: Operator,
  work: (sources: DeadLetterSources) => Promise<void>,
): Promise<void> {
  await withDatabase(
    operator,
    { name: 'dead-letters', parts: ['kafka'], settings: ['KAFKA_BROKERS'] },
    (database) => work(sourcesOf(operator.config, database)),
  );
}

async function act(sources: DeadLetterSources, action: Action, terminal: Terminal): Promise<void> {
  switch (action.verb) {
    case 'list':
      return list(sources, action.wanted, terminal);
    case 'show': {
      const found = await showDeadLetter(sources, action.id);
      if (found === undefined) {
        const id = renderDeadLetterId(action.id);
        throw new CommandError(
          `there is no dead letter ${id}: npm run dead-letters -- list has all`,
        );
      }
      terminal.line(toJson(found, 2));
      return terminal.result(found);
    }
    case 'redrive':
      return redriveAll(sources, action, terminal);
    case 'redrive-window': {
      const { window, actor } = action;
      const redriven = await redriveWindow(sources, window, actor);
      terminal.line(`${count(redriven, 'webhook')} of ${window.partner} redriven`);
      return terminal.result({ ...window, redriven });
    }
    case 'dismiss':
      return dismissAll(sources, action, terminal);
    default:
      return action satisfies never;
  }
}

async function list(sources: DeadLetterSources, wanted: Wanted, terminal: Terminal): Promise<void> {
  const until = await readCopyUntil(sources.database);
  const letters = await listDeadLetters(sources, wanted);
  const heads = ['id', 'since', 'partner', 'about', 'reason'];
  const rows = letters.map(({ id, at, partner, about, reason, redriven, dismissed }) => [
    id,
    at.toISOString(),
    partner,
    about,
    reason,
    redriven === null ? '' : describeLetterAct(redriven),
    ...(dismissed === null ? [] : [describeLetterAct(dismissed)]),
  ]);
  const done = wanted === 'dismissed' ? ['redriven', 'dismissed'] : ['redriven'];
  const columns = [...heads, ...done].map((head) => ({ head }));
  if (until !== undefined) terminal.line(describeCopyUntil(until));
  const lines = rows.length === 0 ? ['there are no dead letters'] : renderList(columns, rows);
  for (const line of lines) terminal.line(line);
  terminal.result({ letters, ...(until === undefined ? {} : { ledgerUntil: until }) });
}

async function redriveAll(
  sources: DeadLetterSources,
  { ids, request }: Extract<Action, { verb: 'redrive' }>,
  terminal: Terminal,
): Promise<void> {
  const results: object[] = [];
  for (const each of ids) {
    const id = renderDeadLetterId(each);
    const result = await redrive(sources, each, request);
    results.push({ id, ...result });
    terminal.line(`${id}: ${describeRedrive(result)}`);
    if (result.outcome === 'not-found') process.exitCode = 1;
  }
  terminal.result({ results });
}

async function dismissAll(
  sources: DeadLetterSources,
  { ids, actor }: Extract<Action, { verb: 'dismiss' }>,
  terminal: Terminal,
): Promise<void> {
  const results: object[] = [];
  for (const each of ids) {
    const id = renderDeadLetterId(each);
    const result = await dismiss(sources, each, actor);
    results.push({ id, ...result });
    terminal.line(`${id}: ${describeDismissal(result)}`);
    if (result.outcome === 'not-found') process.exitCode = 1;
  }
  terminal.result({ results });
}
