import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { formatFiles, generateFiles, type GeneratorCallback, type Tree } from '@nx/devkit';
import { addToList, type List } from './lists.ts';
import { refuseName } from './names.ts';

const templates = join(import.meta.dirname, 'templates', 'transaction');

/** The list of kinds, and the records of all of them that do not compile without the new one. */
const lists: readonly List[] = [
  { file: 'libs/payments/kinds.ts', constant: 'listed' },
  { file: 'libs/contracts/kinds.ts', constant: 'transactionContracts' },
  { file: 'services/ingest-gateway/routes/kinds.ts', constant: 'routesOfKinds' },
];

/**
 * Writes another kind of payment, which the ledger alone settles: `POST /v1/NAMEs` and
 * `GET /v1/NAMEs/{id}`, its record, its entry, its events and their webhook, the audit of its entry
 * and tests, a file for each who has to know it. It moves its amount from the partner's payable
 * funds to its clearing account, the other way than a book transfer; the code and the audit's SQL
 * say so, each by itself. It has a payment's fields but a card and metadata, and neither lists nor
 * refunds, and settlements leave it out.
 *
 * @throws RefusedName when the name is taken or not one, LostList when one of the lists reads
 * otherwise; nothing is written then.
 */
export async function transaction(
  tree: Tree,
  { name }: { name: string },
): Promise<GeneratorCallback> {
  // The tables hold a kind of ten letters.
  refuseName(tree, 'transaction', name);
  const Name = name.charAt(0).toUpperCase() + name.slice(1);
  for (const list of lists) addToList(tree, list, { name, from: `./kinds/${name}.ts` });
  generateFiles(tree, templates, '.', { name, Name });
  await formatFiles(tree);
  return () => {
    // The audit's check, the OpenAPI document and what partners and operators read.
    const generate = join(tree.root, 'infra', 'generators', 'generate.ts');
    execFileSync(process.execPath, [generate], { cwd: tree.root, stdio: 'inherit' });
    console.log(
      `POST /v1/${name}s is there. Next: npm run check, npm run up, npm run scenario -- retry`,
    );
  };
}
