import type { AdminRoute } from '@triplock/runtime';
import type { ProviderBook } from './provider-book.ts';
import { judge, look, type AuditParts } from './reconcile.ts';

/**
 * `GET /audit`: audits now and answers with the result. `?final=true` says that waiting is over:
 * what is still in flight is then drift. `?everything=true` lists all that the provider has and not
 * only what is new. 503 when PostgreSQL or Kafka cannot be asked.
 */
export function auditRoute(parts: AuditParts & { provider: ProviderBook }): AdminRoute {
  return async (query) => {
    try {
      if (query.get('everything') === 'true') await parts.provider.doubtEverything();
      const seen = await look(parts);
      return { status: 200, body: judge(seen, { final: query.get('final') === 'true' }) };
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      return { status: 503, body: { error: `the audit could not look at everything: ${why}` } };
    }
  };
}
