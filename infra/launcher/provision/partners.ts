import { seedPartner } from '@triplock/partners';
import type { PartnerId } from '@triplock/payments';
import type { PartnerCredentials } from '../credentials.ts';
import { withDatabase } from './database.ts';

/** Has the demo partners in the database, with webhooks that go to the catcher. */
export async function seedPartners(
  partnersUrl: string,
  demo: { partners: readonly PartnerCredentials[]; catcher: string },
): Promise<void> {
  await withDatabase(partnersUrl, async (database) => {
    for (const { id, apiKey, webhookSecret } of demo.partners) {
      const webhookUrl = `${demo.catcher}/hooks/${id}`;
      await seedPartner(database, { id: id as PartnerId, apiKey, webhookUrl, webhookSecret });
    }
  });
}
