import type { Service } from '../service-table.ts';

/** A table of services that only answer health checks. `settings` go to the replicated one. */
export function standIns(settings: Readonly<Record<string, string>> = {}): Service[] {
  const port = (use: string, setting: string) => ({
    ...{ use, setting, ready: '/readyz' },
    ...{ usual: 18_000, variable: 'TRIPLOCK_STAND_IN_PORT' },
  });
  return [
    {
      name: 'ingest-gateway',
      main: 'infra/launcher/test/stand-in.ts',
      copies: 'replicas',
      ports: [port('admin', 'ADMIN_PORT')],
      settings: () => settings,
    },
    {
      name: 'catcher',
      main: 'infra/launcher/test/stand-in.ts',
      copies: 'one',
      ports: [port('http', 'CATCHER_PORT')],
      settings: () => ({}),
    },
  ];
}
