export {
  openPostgresClaims,
  type PostgresClaims,
  type PostgresClaimsOptions,
  type TimedClaims,
} from './postgres-claims.ts';
