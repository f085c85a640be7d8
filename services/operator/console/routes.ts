import type { Answer, Console, Role, Visit } from './console.ts';
import { html } from './html.ts';

/** One route. The server asks for its role before it is called, and for the token of every POST. */
export type Route = {
  method: 'GET' | 'POST';
  /** As Fastify writes paths: `/payments/:id`. */
  path: `/${string}`;
  /** Who may take it, or `anyone`, without logging in. */
  role: Role | 'anyone';
  answer: (console: Console, visit: Visit) => Promise<Answer>;
};

/** Every page and every path of the API; docs/operating.md has the same table, held by a test. */
export const routes: readonly Route[] = [
  { method: 'GET', path: '/', role: 'viewer', answer: home },
];

async function home(console: Console): Promise<Answer> {
  const [row] = await console.database.query<{ many: bigint }>(
    'SELECT count(*) AS many FROM ledger.outbox_horizon',
  );
  return { is: 'page', title: 'Flow', main: html`<p>The ledger answers: ${row?.many}.</p>` };
}
