import {
  CommandError,
  isMissing,
  oneOf,
  openTerminal,
  renderList,
  runCommand,
  UsageError,
} from '@triplock/command';
import {
  changeOperator,
  listOperators,
  operatorFor,
  roles,
  whoActs,
  withDatabase,
  type Caller,
  type ListedOperator,
  type OperatorChange,
} from '@triplock/inspect';

const help = `
npm run operators -- list
npm run operators -- add NAME --role viewer|operator|admin
npm run operators -- role NAME --role viewer|operator|admin
npm run operators -- rotate NAME
npm run operators -- revoke NAME

Says who may use the console, and as what: a viewer looks, an operator gives back what was set
aside, an admin also manages partners and their keys. Each has a token to log in with, which is
stored as a hash and shown once. A role holds from the next request; rotate and revoke end a token
and its sessions at once. Each act is recorded with who and why, among the acts of the console. Exit
code 1 when nothing was done, 2 when the system is not up.

  --role ROLE    what NAME may do
  --by NAME      who you are (the user of this machine)
  --reason TEXT  why
  --home DIR     the instance on this machine (.triplock); elsewhere DATABASE_URL says which system
  --json         prints the operators, { operator, token }, or { operator, done }
  --help

DATABASE_URL   the database, as its owner: whoever has the console in hand makes no operator
`;

const verbs = ['list', 'add', 'role', 'rotate', 'revoke'] as const;

/** What a command line asks for. */
type Action = { verb: 'list' } | OperatorChange;

/** `operators`: says who may use the console. */
export function operators(caller: Caller): Promise<void> {
  return runCommand(
    {
      name: 'operators',
      help,
      options: {
        role: { type: 'string' },
        by: { type: 'string' },
        reason: { type: 'string' },
        json: { type: 'boolean' },
      },
      wordsMax: 2,
      run: async ({ values, words, interrupted }) => {
        const action = actionOf(words, values.role);
        const actor = { by: whoActs(values.by), why: values.reason?.trim() || 'by command' };
        const terminal = openTerminal({ json: values.json ?? false });
        const operator = await operatorFor(caller, { terminal, signal: interrupted() });
        await withDatabase(operator, { name: 'operators', parts: [] }, async (database) => {
          if (action.verb === 'list') {
            const rows = await listOperators(database);
            for (const line of renderOperators(rows)) terminal.line(line);
            return terminal.result(rows);
          }
          const done = await database.transaction((tx) => changeOperator(tx, action, actor));
          const { name } = action;
          switch (done.outcome) {
            case 'exists':
              throw new CommandError(`there is an operator ${name}: rotate gives another token`);
            case 'no-operator':
              throw new CommandError(`there is no operator ${name}: list shows all`);
            case 'done':
              break;
            default:
              done satisfies never;
          }
          const shown = done.token === undefined ? ['done'] : [done.token, shownOnce];
          for (const line of shown) terminal.line(line);
          terminal.result({ operator: name, ...(done.token ? { token: done.token } : { done }) });
        });
      },
    },
    caller.args,
  );
}

const shownOnce = 'It is shown this once and cannot be had again: log in to the console with it.';

/** @throws UsageError before anything is opened when the words make no action. */
function actionOf([verb, name]: readonly string[], role: string | undefined): Action {
  const act = oneOf(verb, { what: 'an act', words: verbs });
  if (act === 'list') {
    if (name !== undefined) throw new UsageError('list takes no NAME');
    return { verb: act };
  }
  const like = '1 to 63 of a-z, 0-9, ".", "_", "@" and "-"';
  if (name === undefined) throw isMissing('a NAME', `npm run operators -- ${act} NAME, ${like}`);
  if (!/^[a-z0-9][a-z0-9._@-]{0,62}$/.test(name)) {
    throw new UsageError(`a NAME is ${like}, not '${name}'`);
  }
  if (act === 'rotate' || act === 'revoke') return { verb: act, name };
  return { verb: act, name, role: oneOf(role, { what: '--role', words: roles }) };
}

function renderOperators(rows: readonly ListedOperator[]): string[] {
  if (rows.length === 0)
    return ['there are no operators: npm run operators -- add NAME --role admin'];
  const columns = ['operator', 'role', 'added', ''].map((head) => ({ head }));
  return renderList(
    columns,
    rows.map(({ operator, role, addedAt, revokedAt }) => {
      const state = revokedAt === null ? '' : `revoked ${revokedAt.toISOString()}`;
      return [operator, role, addedAt.toISOString(), state];
    }),
  );
}
