import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandError } from '@triplock/command';
import { transactionKinds, type TransactionKind } from '@triplock/payments';
import { statementsIn } from '@triplock/postgres';
import { providerNames } from '@triplock/providers';
import { filledIn, type GeneratedFile, root, sectionsOf } from './marked-parts.ts';

/**
 * The files of which a part is made of what each kind of transaction brings.
 *
 * @throws CommandError when a kind lacks one of its files.
 */
export function filesOfKinds(clone = root): GeneratedFile[] {
  const file = filledIn(clone);
  const moved = transactionKinds.map((kind) => {
    const path = `services/auditor/kinds/${kind}.sql`;
    const accounts = statementsIn(readPart(clone, path, `what a ${kind} moves`));
    return { kind, debit: accounts.get('debit'), credit: accounts.get('credit') };
  });
  const accountOf = (side: 'debit' | 'credit') =>
    moved.flatMap(({ kind, [side]: account }) =>
      account === undefined ? [] : caseOf(kind, account.trim().split('\n')),
    );
  const told = transactionKinds.flatMap((kind) => {
    const path = `libs/contracts/kinds/${kind}.webhooks.json`;
    return JSON.parse(readPart(clone, path, `an example of each webhook`)) as object[];
  });
  return [
    file('services/auditor/checks/ledger.sql', {
      'kinds that move nothing': moved.flatMap(({ kind, debit }) =>
        debit === undefined ? [`AND transactions.kind <> '${kind}'`] : [],
      ),
      debits: accountOf('debit'),
      credits: accountOf('credit'),
    }),
    file('docs/partners.md', {
      'webhooks of kinds': ['', '```json', ...told.flatMap(webhookText), '```', ''],
      'other ways to pay': ['', ...providerNames.flatMap((name) => waysToPay(clone, name))],
    }),
  ];
}

/** What the gateway counts of each kind of transaction. */
export function metricsOfKinds() {
  return [
    '',
    '| metric | labels | what it tells |',
    '| --- | --- | --- |',
    ...transactionKinds.map((kind) => {
      return `| \`triplock_gateway_${kind}s_total\` | \`outcome\` | Requests for a ${kind}, by outcome. |`;
    }),
    '',
  ];
}

/** What a provider has to say to partners, a section each; the usual one's is the page's own. */
function waysToPay(clone: string, provider: string): string[] {
  const path = join(clone, 'libs/providers', provider, 'partners.md');
  return existsSync(path) ? sectionsOf(readFileSync(path, 'utf8')) : [];
}

/** A branch of a CASE by the kind. */
function caseOf(kind: TransactionKind, [only, ...more]: string[]): string[] {
  if (more.length === 0) return [`WHEN '${kind}' THEN ${only}`];
  return [`WHEN '${kind}' THEN`, ...[only, ...more].map((line) => `  ${line}`)];
}

/** The body of a webhook on two lines. */
function webhookText(body: object): string[] {
  return JSON.stringify(body).replace(',"data":', ',\n "data":').split('\n');
}

function readPart(clone: string, path: string, what: string): string {
  const file = join(clone, path);
  if (!existsSync(file)) throw new CommandError(`${path} is not there: it has ${what}`);
  return readFileSync(file, 'utf8');
}
