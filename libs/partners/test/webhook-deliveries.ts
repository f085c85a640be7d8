import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestContext } from 'node:test';
import { deriveId, type EndpointId, type EventId, type PartnerId } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { createTestDatabase } from '@triplock/testing';
import { openWebhookDeliveries, type DeliveryQuestion } from '../webhook-deliveries.ts';

export const acme = 'acme' as PartnerId;
export const eventId = (n: number, partner = 'acme') =>
  deriveId('test', partner, `${n}`) as EventId;

/** A partner's oldest endpoint; a stranger's where it has none. */
export async function firstEndpoint(owner: Queryable, partner = 'acme'): Promise<EndpointId> {
  const [found] = await owner.query<{ id: EndpointId }>(
    `SELECT endpoint_id AS id FROM partners.live_webhook_endpoints
     WHERE partner_id = $1 ORDER BY made_at LIMIT 1`,
    [partner],
  );
  return found?.id ?? (randomUUID() as EndpointId);
}

/** Deliveries as the notifier keeps them and as the gateway sees them. */
export async function store(context: TestContext) {
  const test = await createTestDatabase(context);
  const notifier = test.open('triplock_notifier');
  const gateway = test.open('triplock_gateway');
  const deliveries = openWebhookDeliveries(gateway);
  const add = async (ids: readonly EventId[], partner = 'acme') => {
    await notifier.query(
      `INSERT INTO webhooks.deliveries (event_id, partner_id, txn_id, body)
       SELECT event_id, $2, event_id, '{"type":"payment.succeeded"}' FROM unnest($1::uuid[]) AS t (event_id)`,
      [ids, partner],
    );
  };
  const change = (id: EventId, to: string) =>
    notifier.query(`UPDATE webhooks.deliveries SET ${to} WHERE event_id = $1`, [id]);
  const list = async (question: Partial<DeliveryQuestion> = {}) => {
    const page = await deliveries.list({ partnerId: acme, limit: 100, ...question });
    assert.ok(page.outcome === 'page');
    return page;
  };
  return { ...test, notifier, gateway, deliveries, add, change, list };
}

/** What makes a delivery one that was delivered. */
export const delivered = `state = 'delivered', finished_at = now(), attempts = 3, last_status = 204,
  last_outcome = 'delivered', first_attempt_at = now() - interval '2 days', lease_owner = NULL`;
/** What makes a delivery one that was given up. */
export const failed = `state = 'failed', finished_at = now(), attempts = 9, last_status = NULL,
  last_error = 'connect 10.0.0.1', last_outcome = 'unanswered',
  first_attempt_at = now() - interval '2 days', lease_owner = NULL`;
