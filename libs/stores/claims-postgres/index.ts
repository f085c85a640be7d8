export {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
  type TimedClaims,
} from './postgres-claims.ts';
export { PostgresDurabilityError } from './postgres-connection.ts';
