import type Stripe from 'stripe';
import { nextPage, type ListedDispute, type ListedDisputes } from '@triplock/provider';
import { unknownBecause } from './errors.ts';
import { disputeOf, intentOf, type SeenObject } from './webhooks.ts';

/** A page of disputes made since a time (docs.stripe.com/api/disputes/list), newest first. */
export async function listDisputes(
  stripe: Stripe,
  { since, after }: { since: Date; after?: string },
): Promise<ListedDisputes> {
  try {
    const { data, has_more: more } = await stripe.disputes.list({
      created: { gte: Math.floor(since.getTime() / 1_000) },
      limit: 100,
      ...(after === undefined ? {} : { starting_after: after }),
    });
    const next = nextPage({ after, more, last: data.at(-1)?.id });
    const disputes = (data as SeenObject[]).flatMap((each) => listedDispute(each) ?? []);
    return { outcome: 'listed', disputes, ...(next === undefined ? {} : { next }) };
  } catch (error) {
    return unknownBecause(error);
  }
}

/** Nothing for one of a charge that no intent made: it is not ours. */
function listedDispute(seen: SeenObject): ListedDispute | undefined {
  const [intentId, dispute] = [intentOf(seen), disputeOf(seen)];
  return intentId === undefined || dispute === undefined ? undefined : { intentId, ...dispute };
}
