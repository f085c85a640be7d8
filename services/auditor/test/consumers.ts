import { consumers } from '@triplock/pipeline';
import { auditOf } from '@triplock/testing/test';

/** What each consumer on the list brings to be audited by. */
export const auditedConsumers = await Promise.all(
  consumers.map(async ({ name, schema }) => ({ name, schema, ...(await auditOf(name)) })),
);
