import { actRoutes } from './acts-pages.ts';
import type { Answer, Console, Route } from './console.ts';
import { html } from './html.ts';
import { loginRoutes } from './login.ts';

/** Every page and every path of the API; docs/operating.md has the same table, held by a test. */
export const routes: readonly Route[] = [
  { method: 'GET', path: '/', role: 'viewer', answer: home },
  ...actRoutes,
  ...loginRoutes,
];

async function home(console: Console): Promise<Answer> {
  const [row] = await console.database.query<{ many: bigint }>(
    'SELECT count(*) AS many FROM ledger.outbox_horizon',
  );
  return { is: 'page', title: 'Flow', main: html`<p>The ledger answers: ${row?.many}.</p>` };
}
