/**
 * A moment by the service's clock, milliseconds: certainly not before one, certainly not after the
 * other.
 */
export type Moment = { earliest: number; latest: number };

/** One answer of the service: when it was asked for and received, by `performance.now()`. */
export type Exchange = { sentAt: number; receivedAt: number; date: Date };

/** What is known of the clock of a service that sends the time with every answer. */
export type ServiceClock = {
  /** Learns from an answer's Date header. */
  learn(exchange: Exchange): void;
  /** @throws when nothing was received yet. */
  now(): Moment;
};

// A Date header says the second and drops the rest (RFC 9110, section 5.6.7).
const dateResolutionMs = 1_000;
// Requests are answered by many machines. Their clocks are disciplined, but not one.
const serviceSpreadMs = 50;
// What the quartz of this machine may be off by: 500 ppm is the most that NTP corrects.
const driftRatio = 500 / 1_000_000;

/**
 * The clock of a service, seen from here: an interval that holds its time. Every answer bounds it,
 * because the second in its Date header lay between asking and receiving; several answers together
 * bound it more closely. The clock of this machine is not asked: time since the last answer is
 * measured by the monotonic one, which is never set.
 */
export function watchServiceClock(): ServiceClock {
  let known: { low: number; high: number; at: number } | undefined;

  // Offsets of the service's clock to the monotonic one, a little wider with every second.
  const bounds = (at: number) => {
    if (known === undefined) throw new Error('the time of the service is not known yet');
    const drift = Math.abs(at - known.at) * driftRatio;
    return { low: known.low - drift, high: known.high + drift };
  };

  return {
    learn({ sentAt, receivedAt, date }) {
      const second = date.getTime();
      if (Number.isNaN(second)) return;
      const bounded = { low: second - receivedAt, high: second + dateResolutionMs - sentAt };
      const before = known === undefined ? bounded : bounds(receivedAt);
      const low = Math.max(bounded.low, before.low);
      const high = Math.min(bounded.high, before.high);
      // No time fits both: the service's clock was set, and what was known of it is void.
      known = low <= high ? { low, high, at: receivedAt } : { ...bounded, at: receivedAt };
    },
    now() {
      const at = performance.now();
      const { low, high } = bounds(at);
      return {
        earliest: Math.floor(at + low - serviceSpreadMs),
        latest: Math.ceil(at + high + serviceSpreadMs),
      };
    },
  };
}
