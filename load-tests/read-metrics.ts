import { askAdmin, type System } from '@triplock/demo';

type ServiceName = Parameters<System['replicas']>[0];

/** The `/metrics` of every replica of a service, asked once each. */
export function readMetrics(
  system: Pick<System, 'replicas'>,
  service: ServiceName,
): Promise<string[]> {
  return Promise.all(
    system.replicas(service).map(async (replica) => {
      return (await askAdmin(replica, { path: '/metrics' })).text();
    }),
  );
}
