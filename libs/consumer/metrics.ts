import type { DecodedEvent } from '@triplock/contracts';
import type { EarlyEvents, ReceiveOutcome } from '@triplock/inbox';
import {
  duplicatesCaught,
  Durations,
  Gauge,
  Tally,
  usualBuckets,
  type Registry,
} from '@triplock/runtime';

/** Why a message is no event of ours. */
export type RefusalReason = Extract<DecodedEvent, { outcome: 'refused' }>['reason'] | 'unstorable';

/** What whoever reads events counts of the messages. */
export type MessageMetrics = {
  /** Poison messages: kept and acknowledged, because no redelivery would make them better. */
  refusedMessages: Tally<RefusalReason>;
  /** From a message's arrival to its answer. */
  handleSeconds: Durations<'ack' | 'nack' | 'failed'>;
};

/** What a consumer counts of its inbox. */
export type InboxMetrics = {
  /** Events by what receiving them came to. */
  events: Tally<Exclude<ReceiveOutcome['outcome'], 'unstorable'>>;
  /** Events that this inbox knew. */
  caught: Tally<'inbox'>;
};

/**
 * Registers gauges of the events that came early and are kept. Every instance of a consumer reports
 * the same.
 */
export function earlyGauges(registry: Registry, prefix: string): (early: EarlyEvents) => void {
  const registers = [registry];
  const events = new Gauge({
    name: `${prefix}_early_events`,
    help: 'Events that came before the one that precedes them, kept until it comes.',
    registers,
  });
  const oldest = new Gauge({
    name: `${prefix}_early_oldest_seconds`,
    help: 'Time since the oldest of them was kept; 0 if there is none.',
    registers,
  });
  return (early) => {
    events.set(early.events);
    oldest.set(early.oldestSeconds);
  };
}

/** Registers them under the reader's own prefix, such as `triplock_auditor`. */
export function messageMetrics(registry: Registry, prefix: string): MessageMetrics {
  const registers = [registry];
  return {
    refusedMessages: new Tally({
      name: `${prefix}_refused_messages_total`,
      help: 'Messages that are not valid events: kept for inspection and acknowledged.',
      label: 'reason',
      values: {
        missing_attributes: 0,
        unknown_type: 0,
        invalid_event: 0,
        forged_id: 0,
        unstorable: 0,
      },
      registers,
    }),
    handleSeconds: new Durations({
      name: `${prefix}_handle_seconds`,
      help: 'Time from the arrival of a message to its ack or nack. failed: redelivered.',
      buckets: usualBuckets,
      outcomes: ['ack', 'nack', 'failed'],
      registers,
    }),
  };
}

/** Registers them under the consumer's own prefix. */
export function inboxMetrics(registry: Registry, prefix: string): InboxMetrics {
  return {
    events: new Tally({
      name: `${prefix}_events_total`,
      help: 'Events received, by outcome of the inbox. early: kept until an earlier one came.',
      label: 'outcome',
      values: { applied: 0, duplicate: 0, altered: 0, early: 0, returned: 0 },
      registers: [registry],
    }),
    caught: duplicatesCaught(registry, 'inbox'),
  };
}

/**
 * Gauges of what a consumer has under way, looked at whenever they are asked for. What the broker
 * still holds back they do not know; while a consumer keeps up there is nothing, and when it does
 * not, the oldest under way grows old.
 */
export function watchInFlight(
  registry: Registry,
  prefix: string,
  inFlight: () => { messages: number; oldestMs: number },
): void {
  const registers = [registry];
  new Gauge({
    name: `${prefix}_events_in_hand`,
    help: 'Messages received and neither acknowledged nor given back yet.',
    registers,
    collect() {
      this.set(inFlight().messages);
    },
  });
  new Gauge({
    name: `${prefix}_events_oldest_seconds`,
    help: 'Time since the oldest message in hand was published; 0 if there is none.',
    registers,
    collect() {
      this.set(inFlight().oldestMs / 1_000);
    },
  });
}
