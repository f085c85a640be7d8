import { onceInTransaction, onceMigrations } from '@triplock/once';
import { migrate, openForCommand } from '@triplock/postgres';

// Takes one piece of an article out of the stock; no row when there is none.
const takeSql =
  'UPDATE stock SET pieces = pieces - 1 WHERE article = $1 AND pieces > 0 RETURNING article';

/** An order as the shop took it. Nothing of it ever changes. */
export type Order = { id: string; article: string; amount: number; currency: string };

/** What became of an order's goods. */
export type Decision = 'handed-over' | 'sold-out';

/** The partner's own side of the saga, with a database of its own. */
export type Shop = {
  /**
   * Hands one piece over, or finds that there is none; once per order, and then always the same.
   */
  handOver(order: Order): Promise<Decision>;
  /** Pieces that are left of each article. */
  stock(): Promise<Record<string, number>>;
  close(): Promise<void>;
};

// An order is never run again so late.
const keepMs = 365 * 24 * 3_600_000;

/** Opens the shop in a database of its own on a server, which it makes when it is not there. */
export async function openShop(serverUrl: string): Promise<Shop> {
  const url = await createDatabase(serverUrl);
  const folder = new URL('migrations/', import.meta.url);
  await migrate(url, [
    { owner: 'shop', schema: 'public', folder },
    { owner: 'once', schema: 'public', folder: onceMigrations },
  ]);
  const database = openShopDatabase(url);
  return {
    handOver: async (order) => {
      const step = {
        scope: 'hand-over',
        key: order.id,
        fingerprint: JSON.stringify([order.article, order.amount, order.currency]),
        keepMs,
      };
      const decided = await onceInTransaction(database, step, async (tx): Promise<Decision> => {
        const taken = await tx.query(takeSql, [order.article]);
        return taken.length === 1 ? 'handed-over' : 'sold-out';
      });
      if ('result' in decided) return decided.result;
      throw new Error(`order ${order.id} was another one before: ${decided.outcome}`);
    },
    stock: async () => {
      const rows = await database.query<{ article: string; pieces: number }>(
        'SELECT article, pieces FROM stock',
      );
      return Object.fromEntries(rows.map(({ article, pieces }) => [article, pieces]));
    },
    close: () => database.close(),
  };
}

/** The shop's name in `pg_database`, and in error codes the two of a race for making it. */
const name = 'shop';
const alreadyThere = ['42P04', '23505'];

async function createDatabase(serverUrl: string): Promise<string> {
  const server = openShopDatabase(serverUrl);
  try {
    const there = await server.query('SELECT FROM pg_database WHERE datname = $1', [name]);
    if (there.length === 0) await server.query(`CREATE DATABASE ${name}`);
  } catch (error) {
    if (!alreadyThere.includes((error as { code?: string }).code ?? '')) throw error;
  } finally {
    await server.close();
  }
  const url = new URL(serverUrl);
  url.pathname = name;
  return url.href;
}

function openShopDatabase(url: string) {
  return openForCommand({ url, applicationName: 'shop', connectionsMax: 2 });
}
