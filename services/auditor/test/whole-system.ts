import {
  encodePaymentAccepted,
  encodeFollowUpAccepted,
  keyConflictEventOf,
  paymentEventOf,
  followUpEventOf,
  type PaymentEvent,
} from '@triplock/contracts';
import { openPostgresLedger, openPostgresFollowUps, requiresActionEvent } from '@triplock/ledger';
import type { AcceptedPayment, AcceptedFollowUp, EventId, TxnId } from '@triplock/payments';
import type { Database } from '@triplock/postgres';
import type { ProviderJournal } from '@triplock/provider';
import { createLogger, createMetrics, readSettings } from '@triplock/runtime';
import { settledAt, succeededEvent } from '@triplock/testing/test';
import type { Offsets, ReceivedRecord } from '@triplock/transport';
import type { Auditor } from '../audit.ts';
import type { LagReaders } from '../kafka-retention.ts';
import type { LostRecords } from '../lost-records.ts';
import { auditorMetrics } from '../metrics.ts';
import { openJournalCopy } from '../provider-journal.ts';
import {
  accountSettings,
  openProviderJournals,
  providerOf,
  type OpenedJournal,
} from '@triplock/providers';
import { recordAcceptedBatch, recordDeadLetterBatch } from '../kafka-records.ts';
import { usualSlices } from '../slices.ts';
import type { SliceLimits } from '../windows.ts';
import { cardHops, eventHops, traceparent, type Owners } from './hops.ts';

/** Stores an intent's id on a payment's row. */
export type HoldIntent = (intentId: string) => Promise<unknown>;

/** A capture, and the provider's ids of what it took. */
type CaptureByCard = { capture: AcceptedFollowUp; intentId: string; chargeId: string };

/** What the services do, hop by hop. */
export type System = ReturnType<typeof wholeSystem>;

/** Does to the stores what the services do, one hop at a time, so that a test may leave one out. */
export function wholeSystem(owners: Owners) {
  const hops = { ...topicHops(owners), ...ledgerHops(owners), ...eventHops(owners) };
  const publish = async (event: PaymentEvent) => {
    await hops.mark(event.event_id);
    await hops.see(event);
    await hops.consumeAll(event);
    await hops.deliver(event.event_id);
  };
  return {
    ...hops,
    publish,
    /** Changes what no role may change, as a bug or a person with too many rights would. */
    break: (statement: string, parameters: readonly unknown[] = []) =>
      owners.admin.transaction(async (tx) => {
        await tx.query('SET LOCAL session_replication_role = replica');
        await tx.query(statement, parameters);
      }),
    /** A payment that went all the way. */
    pay: async (payment: AcceptedPayment) => {
      await hops.accept(payment);
      await hops.post(payment);
      const event = succeededEvent(payment);
      await publish(event);
      return event;
    },
    /** A refund of a book transfer that went all the way, as the payment's next event. */
    giveBack: async (refund: AcceptedFollowUp, sequence: number) => {
      await hops.accept(refund);
      const event = await hops.postRefund(refund, sequence);
      await publish(event);
      return event;
    },
    /** A card payment that went all the way: its intent stored, charged as asked, and settled. */
    payByCard: async (payment: AcceptedPayment, charge: (hold: HoldIntent) => Promise<string>) => {
      await hops.accept(payment);
      await hops.begin(payment);
      const chargeId = await charge((intentId) => hops.storeIntent(payment, intentId));
      await publish(await hops.settleCharge(payment, chargeId));
    },
    /**
     * A refund of a card payment that went all the way: reserved, given back as asked, and settled.
     */
    giveBackByCard: async (refund: AcceptedFollowUp, giveBack: () => Promise<string>) => {
      await hops.accept(refund);
      await hops.beginRefund(refund);
      const refundId = await giveBack();
      await publish(await hops.settleRefund(refund, { sequence: 2, refundId }));
    },
    /** A part of a card payment that was captured, all the way. */
    captureByCard: async (payment: AcceptedPayment, by: CaptureByCard) => {
      await hops.accept(payment);
      await hops.begin(payment);
      await publish(await hops.authorize(payment, by.intentId));
      await hops.accept(by.capture);
      await hops.beginRefund(by.capture);
      const events = await hops.settleCapture(by.capture, by.chargeId);
      for (const event of events) await publish(event);
    },
    /** A request that lost its key, all the way. */
    loseKey: async (payment: AcceptedPayment) => {
      const accepted = await hops.accept(payment);
      await hops.conflict(payment);
      await hops.deadLetter(accepted, 'key_conflict');
      await publish(keyConflictEventOf(payment));
    },
  };
}

/** What Kafka holds, as the auditor's consumers see it. */
function topicHops({ auditor }: Owners) {
  const metrics = auditorMetrics(createMetrics('test'));
  const [takeAccepted, takeDeadLetters] = [
    // One at a time, and none waits for others to share its commit.
    recordAcceptedBatch(aWholeLog(auditor), metrics, { apartMs: 0 }),
    recordDeadLetterBatch(auditor, metrics),
  ];
  let offset = 0n;
  const record = (accepted: AcceptedPayment | AcceptedFollowUp): ReceivedRecord => {
    const { key, value, headers } =
      'paymentId' in accepted
        ? encodeFollowUpAccepted(accepted, traceparent)
        : encodePaymentAccepted(accepted, traceparent);
    offset += 1n;
    return {
      topic: 'payments.accepted.v1',
      partition: 0,
      offset,
      key: Buffer.from(key),
      value,
      headers: bytesOf(headers),
      timestamp: '0',
    };
  };
  const accept = async (accepted: AcceptedPayment | AcceptedFollowUp) => {
    const appended = record(accepted);
    await takeAccepted({ records: [appended] });
    return appended;
  };
  return {
    record,
    append: (records: readonly ReceivedRecord[]) => takeAccepted({ records }),
    accept,
    deadLetter: async (dead: ReceivedRecord, reason: string) => {
      const added = bytesOf({
        'dead-letter.reason': reason,
        'dead-letter.topic': dead.topic,
        'dead-letter.partition': String(dead.partition),
        'dead-letter.offset': String(dead.offset),
      });
      const headers = { ...dead.headers, ...added };
      await takeDeadLetters({ records: [{ ...dead, topic: 'payments.dead-letter.v1', headers }] });
    },
  };
}

function ledgerHops({ ledger, admin }: Owners) {
  const postgresLedger = openPostgresLedger(ledger);
  const refunds = openPostgresFollowUps(ledger);
  return {
    ...cardHops(postgresLedger, refunds),
    /** Posts a refund, which is final then if a book transfer's, and tells of it. */
    postRefund: async (refund: AcceptedFollowUp, sequence: number): Promise<PaymentEvent> => {
      await refunds.post({ followUp: refund, traceparent, settledAt: settledAt(refund) });
      const posted = await refunds.find(refund.txnId);
      return followUpEventOf({ followUp: posted!, orderedBy: refund.paymentId, sequence });
    },
    post: (payment: AcceptedPayment) => {
      const result = { state: 'succeeded' } as const;
      const settlement = { result, settledAt: settledAt(payment) };
      return postgresLedger.post([{ payment, traceparent, settlement }]);
    },
    /** Posts a payment that fails, which moves nothing, and tells of it. */
    decline: async (payment: AcceptedPayment): Promise<PaymentEvent> => {
      const failure = { code: 'declined', message: 'no' };
      const settlement = {
        result: { state: 'failed', failure },
        settledAt: settledAt(payment),
      } as const;
      await postgresLedger.post([{ payment, traceparent, settlement }]);
      return paymentEventOf((await postgresLedger.find(payment.txnId))!, 'payment.failed', 1);
    },
    /** Posts a refund that has to wait for its payment. */
    beginRefund: (refund: AcceptedFollowUp) =>
      refunds.post({ followUp: refund, traceparent, settledAt: settledAt(refund) }),
    begin: (payment: AcceptedPayment) =>
      postgresLedger.post([{ payment, traceparent, provider: providerOf(payment.details) }]),
    /** Stores the intent of a posted card, of which the provider says whom it waits for. */
    askOutside: async (payment: AcceptedPayment, waitsFor: 'customer' | 'bank' | 'partner') => {
      const intentId = `pi-of-${payment.txnId}`;
      const { version } = (await postgresLedger.find(payment.txnId))!;
      const { txnId } = payment;
      await postgresLedger.storeIntent({ txnId, version, provider: 'stripe', intentId });
      await admin.query(
        `INSERT INTO auditor.provider_journal
           (provider, kind, id, status, waits_for, amount, currency, created_at, intent_id, txn_id, partner_id)
         VALUES ('stripe', 'intent', $1, 'pending', $2, 1, 'EUR', now(), $1, $3, $4)`,
        [intentId, waitsFor, txnId, payment.partnerId],
      );
    },
    /** Notes that a card waits for its customer, and for how long; its event as it is told. */
    awaitCustomer: async (txnId: TxnId, withinMs = 86_400_000): Promise<PaymentEvent> => {
      const { version } = (await postgresLedger.find(txnId))!;
      const action = { type: 'redirect_to_url', sealed: 'sealed' };
      await postgresLedger.awaitCustomer({ txnId, version, withinMs, action, traceparent });
      const asked = { type: action.type, withinMs, sequence: 1 };
      return requiresActionEvent((await postgresLedger.find(txnId))!, asked);
    },
    noteDispute: postgresLedger.noteDispute,
    conflict: (payment: AcceptedPayment) =>
      postgresLedger.recordKeyConflict({ payment, traceparent }),
    mark: (eventId: EventId) =>
      admin.query(
        `UPDATE ledger.outbox SET state = 'published', published_at = now(), published_epoch = 1
         WHERE event_id = $1`,
        [eventId],
      ),
  };
}

const unread = await openProviderJournals(readSettings({}, accountSettings), {
  timeoutMs: 1_000,
  requestsPerSecondMax: 1,
});

/** All providers; one of which no journal is given cannot be asked. */
function journalsBy(given: Readonly<Record<string, ProviderJournal | undefined>>): OpenedJournal[] {
  return unread.map((opened) => {
    const journal = given[opened.provider];
    return journal === undefined ? opened : { ...opened, lacks: [], journal };
  });
}

/**
 * What an audit looks at: as the auditor, with such a lag, and with the provider's journal if there
 * are any.
 */
export function anAuditorOf(
  database: Database,
  {
    workerLag = 0,
    journal,
    bank,
    slices = usualSlices,
  }: {
    workerLag?: number;
    /** Stripe's. */
    journal?: ProviderJournal;
    /** Giro's. */
    bank?: ProviderJournal;
    slices?: SliceLimits;
  } = {},
): Auditor {
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  return {
    database,
    slices,
    lag: { worker: lagOf(workerLag), accepted: lagOf(0), deadLetters: lagOf(0) },
    journal: openJournalCopy({
      database,
      journals: journalsBy({ stripe: journal, giro: bank }),
      logger,
    }),
    lost: aWholeLog(database),
    customerOverdueMs: 3_600_000,
    metrics: auditorMetrics(createMetrics('test')),
    logger,
  };
}

/** A topic that has lost nothing, whatever is read of it. */
export function aWholeLog(database: Database): LostRecords {
  const bounds = async () => new Map([[0, { start: 0n, end: 1_000_000n }]]);
  const logger = createLogger({ service: 'test', instance: 'test', level: 'silent' });
  return { database, log: { topic: 'payments.accepted.v1', bounds }, logger };
}

/** Offsets of a topic with one partition whose consumer is so many records behind. */
export function lagOf(records: number): LagReaders[keyof LagReaders] {
  const at = (offset: number): Offsets => new Map([[0, BigInt(offset)]]);
  return {
    end: async () => at(100),
    committed: async () => at(100 - records),
  };
}

function bytesOf(headers: Readonly<Record<string, string>>): Record<string, Buffer> {
  const entries = Object.entries(headers).map(([name, value]) => [name, Buffer.from(value)]);
  return Object.fromEntries(entries) as Record<string, Buffer>;
}
