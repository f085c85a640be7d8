/**
 * A moment by the service's clock, milliseconds: certainly not before one, certainly not after the
 * other.
 */
export type Moment = { earliest: number; latest: number };

/** One answer of the service: when it was asked for and heard, by `performance.now()`. */
export type Exchange = { sentAt: number; heardAt: number; date: Date };

/** What is known of the clock of a service that sends the time with every answer. */
export type ServiceClock = {
  /** Learns from an answer's Date header. */
  hear(exchange: Exchange): void;
  /** @throws when nothing was heard yet. */
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
 * because the second in its Date header lay between asking and hearing; several answers together
 * bound it more closely. The clock of this machine is not asked: time since the last answer is
 * measured by the monotonic one, which is never set.
 */
export function watchServiceClock(): ServiceClock {
  let known: { low: number; high: number; at: number } | undefined;

  // Offsets of the service's clock to the monotonic one, a little wider with every second.
  const bounds = (at: number) => {
    if (known === undefined) throw new Error('the service has not told the time yet');
    const drift = Math.abs(at - known.at) * driftRatio;
    return { low: known.low - drift, high: known.high + drift };
  };

  return {
    hear({ sentAt, heardAt, date }) {
      const second = date.getTime();
      if (Number.isNaN(second)) return;
      const heard = { low: second - heardAt, high: second + dateResolutionMs - sentAt };
      const before = known === undefined ? heard : bounds(heardAt);
      const low = Math.max(heard.low, before.low);
      const high = Math.min(heard.high, before.high);
      // No time fits both: the service's clock was set, and what was known of it is void.
      known = low <= high ? { low, high, at: heardAt } : { ...heard, at: heardAt };
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
