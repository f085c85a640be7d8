import { paymentEventOf, type PaymentEvent } from '@triplock/contracts';
import type { AcceptedFollowUp, AcceptedPayment } from '@triplock/payments';
import type { Queryable } from '@triplock/postgres';
import { aPayment, aRefund } from './builders.ts';

/** What is done to a system that an audit looks at, by harms that know no more of it. */
export type AuditedSystem = {
  /** A payment that went all the way; its event. */
  pay(payment: AcceptedPayment): Promise<PaymentEvent>;
  /** A refund of a book transfer that went all the way, as the payment's next event. */
  giveBack(refund: AcceptedFollowUp, sequence: number): Promise<PaymentEvent>;
  /** Gives a consumer an event, which it admits by its inbox. */
  consume(consumer: string, event: PaymentEvent): Promise<unknown>;
  /**
   * Leaves a webhook as one that its partner's server refused once and that is tried again, as one
   * that has nowhere to go, or as one that was given up. Each has waited for nine days.
   */
  failToDeliver(eventId: string, state: 'pending' | 'parked' | 'failed'): Promise<void>;
  /** Changes what no role may change, as a bug or a person with too many rights would. */
  break(statement: string, parameters?: readonly unknown[]): Promise<unknown>;
};

/** A payment and a partial refund of it that went all the way, to be harmed. */
export type Scene<System extends AuditedSystem = AuditedSystem> = {
  system: System;
  paid: AcceptedPayment;
  refund: AcceptedFollowUp;
  /** The events of the two. */
  paidEvent: PaymentEvent;
  refunded: PaymentEvent;
};

export async function aScene<System extends AuditedSystem>(system: System): Promise<Scene<System>> {
  const paid = aPayment({ amount: 1_250n });
  const refund = aRefund(paid, { amount: 250n });
  const paidEvent = await system.pay(paid);
  const refunded = await system.giveBack(refund, 2);
  return { system, paid, refund, paidEvent, refunded };
}

/** Something that a check exists to see, done to what was well. */
export type Harm<System extends AuditedSystem = AuditedSystem> = {
  /**
   * What it changes: a column as `schema.table.column`, or a row that is put in as `+schema.table`
   * or taken out as `-schema.table`. Absent where it is several things at once, or a hop left out.
   */
  of?: string;
  /** Does it, and gives the id that must be named for it. */
  harm(scene: Scene<System>): Promise<string>;
};

/** What a consumer brings to be audited by, in its `audit/harms.testing.ts`. */
export type AuditedConsumer = {
  /**
   * What it does about events in the transaction of their inbox rows, written once more by another
   * hand; `tx` has its schema as search_path.
   */
  effect(tx: Queryable, events: readonly { payload: PaymentEvent }[]): Promise<void>;
  /** For each check of its `audit/checks.sql` some things that it exists to see. */
  harms: Readonly<Record<string, readonly Harm[]>>;
  /** What it may write and no check compares, with what makes it harmless; `*` is anything. */
  unharmed: Readonly<Record<string, string>>;
  /** Statements that its role in the database is refused. */
  denied: readonly string[];
};

/** What a consumer is audited by. Tests read it where it lies: nobody imports a service. */
export async function auditOf(consumer: string): Promise<AuditedConsumer> {
  const file = `../../services/${consumer}/audit/harms.testing.ts`;
  return ((await import(file)) as { audited: AuditedConsumer }).audited;
}

/** Rows to be harmed: those whose column `by` is the `key`, and the id that is named for it. */
export type Rows<System extends AuditedSystem = AuditedSystem> = {
  by: string;
  find(scene: Scene<System>): Promise<{ key: string; id: string }>;
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
export function change<System extends AuditedSystem = AuditedSystem>(
  column: string,
  value: string,
  rows: Rows<System>,
  along?: string,
): Harm<System> {
  const [schema, table, name] = column.split('.');
  const settings = [`${name} = ${value}`, ...(along === undefined ? [] : [along])].join(', ');
  return harmRows(column, `UPDATE ${schema}.${table} SET ${settings}`, rows);
}

/** Takes rows out of a table, `schema.table`. */
export function remove<System extends AuditedSystem = AuditedSystem>(
  table: string,
  rows: Rows<System>,
): Harm<System> {
  return harmRows(`-${table}`, `DELETE FROM ${table}`, rows);
}

/** Does several things to rows at once, which no column stands for. */
export function alter<System extends AuditedSystem = AuditedSystem>(
  statement: string,
  rows: Rows<System>,
): Harm<System> {
  return harmRows(undefined, statement, rows);
}

function harmRows<System extends AuditedSystem>(
  of: string | undefined,
  statement: string,
  rows: Rows<System>,
): Harm<System> {
  const harm: Harm<System>['harm'] = async (scene) => {
    const { key, id } = await rows.find(scene);
    await scene.system.break(`${statement} WHERE ${rows.by} = $1`, [key]);
    return id;
  };
  return of === undefined ? { harm } : { of, harm };
}

/** Puts a row into a table, `schema.table`, that nothing else accounts for. */
export function add<System extends AuditedSystem = AuditedSystem>(
  table: string,
  harm: Harm<System>['harm'],
): Harm<System> {
  return { of: `+${table}`, harm };
}

let partners = 0;

/** The name of a partner that has nothing else. */
export const aPartner = (what: string) => `${what}-${(partners += 1)}`;

/** The event of a payment that succeeded. */
export function succeededEvent(payment: AcceptedPayment): PaymentEvent {
  const settled = { version: 1, amountRefunded: 0n, settledAt: settledAt(payment) };
  return paymentEventOf(
    { ...payment, state: 'succeeded', ...settled },
    `${payment.kind}.succeeded`,
    1,
  );
}

/** When what was accepted then is settled here. */
export function settledAt(accepted: Pick<AcceptedPayment, 'acceptedAt'>): Date {
  return new Date(accepted.acceptedAt.getTime() + 5);
}
