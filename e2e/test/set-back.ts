import type { Endpoints } from '@triplock/launcher';
import { openForCommand } from '@triplock/postgres';
import { eventually } from '@triplock/testing';

/** A PostgreSQL that can be set back to an earlier moment, as a failover to a late standby does. */
export function openSetBack({ postgres }: Endpoints) {
  const at = new URL(postgres);
  const name = at.pathname.slice(1);
  at.pathname = '/postgres';
  const server = openForCommand({ url: at.href, applicationName: 'e2e', connectionsMax: 1 });
  /** Nobody is connected meanwhile; services get errors, and connect again afterwards. */
  const alone = async (work: () => Promise<unknown>) => {
    await server.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await eventually(async () => {
      const left = await server.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1',
        [name],
      );
      return left.length === 0;
    });
    await work();
    await server.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
  };
  return {
    copy: () => alone(() => server.query(`CREATE DATABASE ${name}_standby TEMPLATE ${name}`)),
    failOver: () =>
      alone(async () => {
        await server.query(`ALTER DATABASE ${name} RENAME TO ${name}_lost`);
        await server.query(`ALTER DATABASE ${name}_standby RENAME TO ${name}`);
      }),
    close: async () => {
      await server.query(`DROP DATABASE IF EXISTS ${name}_lost`);
      await server.query(`DROP DATABASE IF EXISTS ${name}_standby`);
      await server.close();
    },
  };
}
