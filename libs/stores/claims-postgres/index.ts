export {
  openPostgresClaims,
  openPostgresWalk,
  type PostgresClaims,
  type PostgresClaimsOptions,
  type TimedClaims,
} from './postgres-claims.ts';
export { postgresStore, reaped } from './postgres-store.ts';
