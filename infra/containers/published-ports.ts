import { createHash } from 'node:crypto';
import { defaultHome } from '../home.ts';
import { allParts } from '../parts/all-parts.ts';
import { choosePorts } from '../ports.ts';
import { services } from '../services.ts';
import type { Session } from '../session.ts';

/**
 * Of which replicas take the next free one; those of the default home are in docker-compose.yml.
 */
const ranges = [
  'TRIPLOCK_GATEWAY_PORTS',
  'TRIPLOCK_STRIPE_WEBHOOKS_PORTS',
  'TRIPLOCK_GATEWAY_ADMIN_PORTS',
  'TRIPLOCK_WORKER_ADMIN_PORTS',
  'TRIPLOCK_DISPATCHER_ADMIN_PORTS',
  'TRIPLOCK_NOTIFIER_ADMIN_PORTS',
  'TRIPLOCK_SETTLEMENT_ADMIN_PORTS',
  'TRIPLOCK_AUDITOR_ADMIN_PORTS',
];

/**
 * The ports of this machine that the containers of a home are published on, as docker-compose.yml
 * takes them from the environment. Choose them only when no container of the home has them yet.
 *
 * @throws LauncherError when one that was asked for is taken.
 */
export async function publishedPorts(session: Session): Promise<Record<string, string>> {
  const ports: Record<string, string> = {};
  const ones = services.filter(({ copies }) => copies === 'one');
  for (const { name, ports: requests } of [...allParts, ...ones]) {
    const [request] = requests;
    const chosen = await choosePorts(session, { name, requests: [request!] });
    ports[request!.variable] = String(chosen[request!.use]);
  }
  return { ...ports, ...rangesOf(session.home.folder) };
}

function rangesOf(folder: string): Record<string, string> {
  if (folder === defaultHome) return {};
  // Above where the launcher's processes get theirs, and below those of outgoing connections.
  const slots = Math.floor(2_700 / (ranges.length * 10));
  const slot = createHash('sha256').update(folder).digest().readUInt32BE() % slots;
  const first = 30_000 + slot * ranges.length * 10;
  const each = ranges.map((name, index) => {
    const from = first + index * 10;
    return [name, `${from}-${from + 9}`];
  });
  return Object.fromEntries(each) as Record<string, string>;
}
