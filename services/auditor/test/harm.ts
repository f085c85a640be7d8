import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { PaymentEvent } from '@triplock/contracts';
import {
  deriveDisputeEventId,
  type AcceptedPayment,
  type AcceptedFollowUp,
} from '@triplock/payments';
import { aPayment, aRefund } from '@triplock/testing';
import { succeededEvent, type System } from './whole-system.ts';

/** A payment and a partial refund of it that went all the way, to be harmed. */
export type Scene = {
  system: System;
  paid: AcceptedPayment;
  refund: AcceptedFollowUp;
  /** The events of the two. */
  paidEvent: PaymentEvent;
  refunded: PaymentEvent;
};

export async function aScene(system: System): Promise<Scene> {
  const paid = aPayment({ amount: 1_250n });
  const refund = aRefund(paid, { amount: 250n });
  await system.pay(paid);
  const refunded = await system.giveBack(refund, 2);
  return { system, paid, refund, paidEvent: succeededEvent(paid), refunded };
}

/** Something that a check exists to see, done to what was well. */
export type Harm = {
  /**
   * What it changes: a column as `schema.table.column`, or a row that is put in as `+schema.table`
   * or taken out as `-schema.table`. Absent where it is several things at once, or a hop left out.
   */
  of?: string;
  /** Does it, and gives the id that must be named for it. */
  harm(scene: Scene): Promise<string>;
};

/** Rows to be harmed: those whose column `by` is the `key`, and the id that is named for it. */
export type Rows = {
  by: string;
  find(scene: Scene): Promise<{ key: string; id: string }>;
};

export function rowsBy(by: string, keyOf: (scene: Scene) => string, idOf = keyOf): Rows {
  return { by, find: (scene) => Promise.resolve({ key: keyOf(scene), id: idOf(scene) }) };
}

const paidId = ({ paid }: Scene) => paid.txnId;
const refundId = ({ refund }: Scene) => refund.txnId;
const paidEventId = ({ paidEvent }: Scene) => paidEvent.event_id;
const refundEventId = ({ refunded }: Scene) => refunded.event_id;

export const paid = rowsBy('txn_id', paidId);
export const refund = rowsBy('txn_id', refundId);
/** The row of a transaction, where it is the other one or an event that is named. */
export const refundOfPaid = rowsBy('txn_id', refundId, paidId);
export const paidOfEvent = rowsBy('txn_id', paidId, paidEventId);
export const refundOfEvent = rowsBy('txn_id', refundId, refundEventId);
/** The row of an event, and where its transaction is named. */
export const paidEvent = rowsBy('event_id', paidEventId);
export const refundEvent = rowsBy('event_id', refundEventId);
/** Harms the rows of the events of both a payment and a refund, one at a time. */
export const bothEvents = (harmOf: (rows: Rows) => Harm) => [
  harmOf(paidEvent),
  harmOf(refundEvent),
];
export const eventOfPaid = rowsBy('event_id', paidEventId, paidId);
export const eventOfRefund = rowsBy('event_id', refundEventId, refundId);
/** The event of the refund, where the payment that orders it is named. */
export const refundInOrder = rowsBy('event_id', refundEventId, paidId);
/** What is ordered by the payment: its events, or a consumer's cursor. */
export const paidSequence = rowsBy('payment_id', paidId);
export const paidOrder = rowsBy('ordering_key', paidId);

/**
 * Changes a column, `schema.table.column`, to what an expression of SQL gives; `along` are settings
 * that a constraint makes go with it.
 */
export function change(column: string, value: string, rows: Rows, along?: string): Harm {
  const [schema, table, name] = column.split('.');
  const settings = [`${name} = ${value}`, ...(along === undefined ? [] : [along])].join(', ');
  return harmRows(column, `UPDATE ${schema}.${table} SET ${settings}`, rows);
}

/** Takes rows out of a table, `schema.table`. */
export function remove(table: string, rows: Rows): Harm {
  return harmRows(`-${table}`, `DELETE FROM ${table}`, rows);
}

/** Does several things to rows at once, which no column stands for. */
export function alter(statement: string, rows: Rows): Harm {
  return harmRows(undefined, statement, rows);
}

function harmRows(of: string | undefined, statement: string, rows: Rows): Harm {
  const harm: Harm['harm'] = async (scene) => {
    const { key, id } = await rows.find(scene);
    await scene.system.break(`${statement} WHERE ${rows.by} = $1`, [key]);
    return id;
  };
  return of === undefined ? { harm } : { of, harm };
}

/** Puts a row into a table, `schema.table`, that nothing else accounts for. */
export function add(table: string, harm: Harm['harm']): Harm {
  return { of: `+${table}`, harm };
}

let partners = 0;

/** The name of a partner that has nothing else. */
export const aPartner = (what: string) => `${what}-${(partners += 1)}`;

/** A webhook of a partner of its own that is left in such a state. */
export const aWebhook = (state: 'pending' | 'parked' | 'failed', then = ''): Harm => ({
  async harm({ system }) {
    const paid = aPayment({ partner: aPartner('webhook') });
    await system.pay(paid);
    const { event_id: eventId } = succeededEvent(paid);
    await system.failToDeliver(eventId, state);
    if (then !== '') await system.break(then, [eventId, paid.partnerId]);
    return eventId;
  },
});
/** Has it never been tried. */
export const untried = `DELETE FROM notifier.delivery_attempts WHERE event_id = $1 AND $2::text IS NOT NULL`;
/** Gives its partner an open endpoint. */
export const endpointOf = `INSERT INTO partners.webhook_endpoints
    (partner_id, url, host, verified_url, verified_at, secrets)
  SELECT partner_id, 'https://example.com', 'example.com', 'https://example.com', now(),
         '[{"id": "1", "key": "one", "box": ""}]'
  FROM notifier.deliveries
  WHERE event_id = $1 AND partner_id = $2`;
/** Gives the delivery an endpoint that is not open: one that nobody has asked, or that is gone. */
export const itsEndpoint = (state: 'deleted' | 'unverified') => `WITH endpoint AS (
    INSERT INTO partners.webhook_endpoints (partner_id, url, host, secrets, deleted_at)
    SELECT $2, 'https://example.com', 'example.com',
           ${state === 'deleted' ? `'[]', now()` : `'[{"id": "1", "key": "one", "box": ""}]', NULL`}
    RETURNING endpoint_id
  )
  UPDATE notifier.deliveries SET endpoint_id = endpoint.endpoint_id FROM endpoint
  WHERE event_id = $1`;

/** An endpoint of a partner of its own that wanted since long ago what came a moment ago. */
export const aWish: Harm = {
  async harm({ system }) {
    const paid = aPayment({ partner: aPartner('wish') });
    await system.pay(paid);
    await system.break(
      `INSERT INTO partners.endpoint_wishes (endpoint_id, partner_id, event_types, since)
       VALUES (gen_random_uuid(), $1, '{payment.succeeded}', now() - interval '1 hour')`,
      [paid.partnerId],
    );
    return succeededEvent(paid).event_id;
  },
};

/** What the journal has of the provider, without the provider having it. */
export async function bookAtProvider(
  system: System,
  row: {
    kind: 'intent' | 'charge' | 'refund' | 'dispute';
    of: AcceptedPayment | AcceptedFollowUp;
    intentId: string;
    amount?: number;
  },
): Promise<string> {
  const id = row.kind === 'intent' ? row.intentId : `${row.kind}-${randomUUID()}`;
  // A dispute is made by the customer's bank, and carries nothing of ours.
  const isOurs = row.kind !== 'dispute';
  const { txnId, partnerId } = isOurs ? row.of : { txnId: null, partnerId: null };
  const money = [row.amount ?? 1_250, 'EUR'];
  await system.break(
    `INSERT INTO auditor.provider_journal
       (kind, id, status, amount, currency, created_at, intent_id, txn_id, partner_id)
     VALUES ($1, $2, 'succeeded', $3, $4, now(), $5, $6, $7)`,
    [row.kind, id, ...money, row.intentId, txnId, partnerId],
  );
  return id;
}

/** A card payment and a partial refund of it, both in the journal and in the ledger. */
export async function aCardScene(system: System) {
  const paid = aPayment({ paymentMethod: 'pm_card_visa', amount: 1_250n });
  const refund = aRefund(paid, { amount: 250n });
  const intentId = `pi-${randomUUID()}`;
  let chargeId = '';
  let refundId = '';
  await system.payByCard(paid, async (hold) => {
    await bookAtProvider(system, { kind: 'intent', of: paid, intentId });
    await hold(intentId);
    return (chargeId = await bookAtProvider(system, { kind: 'charge', of: paid, intentId }));
  });
  await system.giveBackByCard(refund, async () => {
    return (refundId = await bookAtProvider(system, {
      kind: 'refund',
      of: refund,
      intentId,
      amount: 250,
    }));
  });
  return { paid, refund, intentId, chargeId, refundId };
}

/**
 * A card payment that is disputed, twice: the ledger's row of the second dispute, or the
 * provider's, and what an audit names.
 */
export function disputed(of: 'ledger' | 'provider' | 'outbox', named: DisputePart): Rows {
  return {
    by: { ledger: 'dispute_id', provider: 'id', outbox: 'event_id' }[of],
    find: async ({ system }) => {
      const { paid, intentId } = await aCardScene(system);
      const disputeIt = async () => {
        const its = { kind: 'dispute', of: paid, intentId, amount: 625 } as const;
        const dispute = await bookAtProvider(system, its);
        const report = { provider: 'stripe', intentId, disputeId: dispute } as const;
        const money = { amount: 625n, currency: 'EUR' };
        const noted = await system.noteDispute({ ...report, ...money, reason: 'fraudulent' });
        assert.equal(noted.outcome, 'disputed');
        return dispute;
      };
      await disputeIt();
      const dispute = await disputeIt();
      const event = deriveDisputeEventId(paid.txnId, dispute);
      const ids = { payment: paid.txnId, dispute, event };
      return { key: of === 'outbox' ? event : dispute, id: ids[named] };
    },
  };
}
type DisputePart = 'payment' | 'dispute' | 'event';

/** A part of the card scene. */
export type CardPart = 'chargeId' | 'refundId' | 'paid' | 'refund';

/** The row of the card scene's charge or refund, or the ledger's of it, and what is named. */
export function card(of: CardPart, named: CardPart = of): Rows {
  return {
    by: of === 'paid' || of === 'refund' ? 'txn_id' : 'id',
    find: async ({ system }) => {
      const scene = await aCardScene(system);
      const idOf = (part: CardPart) => {
        const harmed = scene[part];
        return typeof harmed === 'string' ? harmed : harmed.txnId;
      };
      return { key: idOf(of), id: idOf(named) };
    },
  };
}

/** A card payment of which a part was captured, in the journal and in the ledger. */
export async function aCaptureScene(system: System) {
  const wish = { paymentMethod: 'pm_card_visa', captureMethod: 'manual', amount: 2_000n } as const;
  const paid = aPayment(wish);
  const capture = aRefund(paid, { kind: 'capture', amount: 1_250n });
  const intentId = `pi-${randomUUID()}`;
  await bookAtProvider(system, { kind: 'intent', of: paid, intentId, amount: 2_000 });
  const chargeId = await bookAtProvider(system, { kind: 'charge', of: paid, intentId });
  await system.captureByCard(paid, { capture, intentId, chargeId });
  return { paid, capture, intentId, chargeId };
}

/** The ledger's row of a captured payment, or of its capture, where the payment is named. */
export function captured(of: 'paid' | 'capture' = 'paid'): Rows {
  return {
    by: 'txn_id',
    find: async ({ system }) => {
      const scene = await aCaptureScene(system);
      return { key: scene[of].txnId, id: scene.paid.txnId };
    },
  };
}
