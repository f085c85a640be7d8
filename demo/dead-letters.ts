import { topics } from '@triplock/contracts';
import { LauncherError, runCommand, UsageError } from '@triplock/launcher';
import { openForCommand } from '@triplock/postgres';
import { describeCopyUntil, readCopyUntil } from './copy-behind.ts';
import {
  listDeadLetters,
  redrive,
  showDeadLetter,
  type RedriveRequest,
  type Stores,
} from './dead-letters/dead-letters.ts';
import { parseLetterId, renderLetterId } from './dead-letters/letter-id.ts';
import { withParts } from './needed-parts.ts';
import { findSystem, type System } from './system.ts';
import { toJson } from './terminal/json.ts';
import { renderTable } from './terminal/table.ts';
import { openTerminal, type Terminal } from './terminal/terminal.ts';
import { whoActs } from './who-acts.ts';

const help = `
npm run dead-letters -- list [options]
npm run dead-letters -- show ID [options]
npm run dead-letters -- redrive ID... [options]

What could not go on and was set aside: records that are no payment (kafka:<partition>:<offset> of
the dead-letter topic), events that cannot be published (outbox:<event id>) and webhooks that were
given up (webhook:<event id>). Redriving gives it back to where it came from, is recorded with who,
when and why, and is harmless twice. Exit code 1 when an ID is not there, 2 when the system or a part
of it is not up.

  --why TEXT   why it is redriven
  --by NAME    who redrives it (the user of this machine)
  --again      also what was redriven before
  --home DIR   the instance (.triplock)
  --json       prints { letters }, the letter, or { results }
  --help
`;

await runCommand({
  name: 'dead-letters',
  help,
  options: {
    why: { type: 'string' },
    by: { type: 'string' },
    again: { type: 'boolean' },
    home: { type: 'string' },
    json: { type: 'boolean' },
  },
  wordsMax: 1_001,
  run: async ({ values, words: [verb, ...ids], interrupted }) => {
    const letterIds = ids.map(parseLetterId);
    const request = {
      // Whoever only looks need be nobody.
      by: verb === 'redrive' ? whoActs(values.by) : '',
      why: values.why ?? null,
      again: values.again ?? false,
    };
    const terminal = openTerminal({ json: values.json ?? false });
    const verbs: Record<string, (stores: Stores) => Promise<void>> = {
      list: (stores) => list(stores, terminal),
      show: (stores) => show(stores, letterIds, terminal),
      redrive: (stores) => redriveAll(stores, { letterIds, request }, terminal),
    };
    const act = Object.hasOwn(verbs, verb ?? '') ? verbs[verb!] : undefined;
    if (act === undefined)
      throw new UsageError('say list, show or redrive (npm run dead-letters -- --help)');
    const takes = { list: letterIds.length === 0, show: letterIds.length === 1 };
    if (!(takes[verb as 'list'] ?? letterIds.length > 0)) {
      throw new UsageError(`${verb} takes ${verb === 'list' ? 'no ID' : 'an ID'}`);
    }
    const system = await findSystem(values.home, { terminal, signal: interrupted() });
    const parked = letterIds.some(({ source }) => source === 'outbox');
    if (verb === 'redrive' && parked && system.endpoints.ledger === 'spanner') {
      await system.close();
      throw new LauncherError(
        'a parked event is given back by this command only where the ledger is in PostgreSQL (docs/stores.md)',
      );
    }
    await withStores(system, act);
  },
});

/** Only the owner of the database may change what every service has its own part of. */
async function withStores(system: System, work: (stores: Stores) => Promise<void>): Promise<void> {
  const database = openForCommand({
    url: system.endpoints.postgres,
    applicationName: 'dead-letters',
    connectionsMax: 2,
  });
  try {
    await withParts(system, ['postgres', 'kafka'], () =>
      work({ database, kafka: system.kafka, topics }),
    );
  } finally {
    await database.close();
    await system.close();
  }
}

async function list(stores: Stores, terminal: Terminal): Promise<void> {
  const until = await readCopyUntil(stores.database);
  const letters = await listDeadLetters(stores);
  const heads = ['id', 'since', 'partner', 'about', 'reason', 'redriven'];
  const rows = letters.map(({ id, at, partner, about, reason, redriven }) => [
    id,
    at.toISOString(),
    partner,
    about,
    reason,
    redriven === null ? '' : `${redriven.at.toISOString()} by ${redriven.by}`,
  ]);
  if (until !== undefined) terminal.line(describeCopyUntil(until));
  if (rows.length === 0) terminal.line('there are no dead letters');
  else
    for (const line of renderTable(
      heads.map((head) => ({ head })),
      rows,
    ))
      terminal.line(line);
  terminal.result({ letters, ...(until === undefined ? {} : { ledgerUntil: until }) });
}

async function show(
  stores: Stores,
  [id]: readonly ReturnType<typeof parseLetterId>[],
  terminal: Terminal,
): Promise<void> {
  const letter = await showDeadLetter(stores, id!);
  if (letter === undefined)
    throw new LauncherError(`there is no dead letter ${renderLetterId(id!)}`);
  terminal.line(toJson(letter, 2));
  terminal.result(letter);
}

async function redriveAll(
  stores: Stores,
  wanted: { letterIds: readonly ReturnType<typeof parseLetterId>[]; request: RedriveRequest },
  terminal: Terminal,
): Promise<void> {
  const results: object[] = [];
  for (const letterId of wanted.letterIds) {
    const id = renderLetterId(letterId);
    const result = await redrive(stores, letterId, wanted.request);
    results.push({ id, ...result });
    switch (result.outcome) {
      case 'redriven':
        terminal.line(`${id}: redriven`);
        break;
      case 'redriven-before': {
        const { at, by, why } = result.last;
        const reason = why === null ? '' : `: ${why}`;
        terminal.line(
          `${id}: redriven before, ${at.toISOString()} by ${by}${reason}; --again does it once more`,
        );
        break;
      }
      case 'not-found':
        terminal.line(`${id}: there is no such dead letter`);
        process.exitCode = 1;
        break;
      default:
        result satisfies never;
    }
  }
  terminal.result({ results });
}
