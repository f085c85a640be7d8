import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { watchServiceClock } from './service-clock.ts';

/** What a service whose clock is `offset` ahead of the monotonic one puts into its Date header. */
const dateAt = (offset: number, at: number) => new Date(Math.floor((at + offset) / 1_000) * 1_000);

describe('the time of the service', () => {
  it('the interval always holds the time of the service, and answers make it narrow', () => {
    const exchange = fc.record({
      pause: fc.double({ min: 0, max: 400, noNaN: true }),
      there: fc.double({ min: 0, max: 200, noNaN: true }),
      back: fc.double({ min: 0, max: 200, noNaN: true }),
      // Each answer is by the clock of whichever machine gave it.
      ahead: fc.double({ min: -50, max: 50, noNaN: true }),
    });
    const offsets = fc.double({ min: -1e12, max: 1e12, noNaN: true });
    fc.assert(
      fc.property(
        offsets,
        fc.array(exchange, { minLength: 1, maxLength: 10 }),
        (offset, exchanges) => {
          const clock = watchServiceClock();
          // In the past of the real monotonic clock, which `now` reads.
          let at = performance.now() - 10_000;
          for (const { pause, there, back, ahead } of exchanges) {
            const sentAt = at + pause;
            const date = dateAt(offset + ahead, sentAt + there);
            const receivedAt = sentAt + there + back;
            clock.learn({ sentAt, receivedAt, date });
            at = receivedAt;
            const { earliest, latest } = clock.now();
            const truth = performance.now() + offset;
            assert.ok(
              earliest <= truth + 1 && truth - 1 <= latest,
              `${earliest} ${truth} ${latest}`,
            );
          }
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('answers spread over a second tell the time to a tenth of it', () => {
    const clock = watchServiceClock();
    const begin = performance.now() - 2_000;
    for (let each = 0; each < 20; each += 1) {
      const sentAt = begin + each * 97;
      clock.learn({ sentAt, receivedAt: sentAt + 4, date: dateAt(5_000_000, sentAt + 2) });
    }
    const { earliest, latest } = clock.now();
    assert.ok(latest - earliest < 250, `${latest - earliest} ms wide`);
  });

  it('a service whose clock was set is believed anew', () => {
    const clock = watchServiceClock();
    const sentAt = performance.now();
    clock.learn({ sentAt, receivedAt: sentAt + 1, date: dateAt(0, sentAt) });
    clock.learn({ sentAt: sentAt + 1, receivedAt: sentAt + 2, date: dateAt(-3_600_000, sentAt) });
    const hoursAgo = (performance.now() - clock.now().latest) / 3_600_000;
    assert.ok(Math.abs(hoursAgo - 1) < 0.01, `${hoursAgo} h`);
  });

  it('the longer nothing was heard of the service, the less is known of its time', () => {
    const hourMs = 3_600_000;
    const widthAfter = (silenceMs: number) => {
      const clock = watchServiceClock();
      const sentAt = performance.now() - silenceMs;
      clock.learn({ sentAt, receivedAt: sentAt + 1, date: dateAt(0, sentAt) });
      const { earliest, latest } = clock.now();
      return latest - earliest;
    };
    // A clock that is off by 500 ppm, either way, is 3.6 s off after an hour.
    assert.ok(widthAfter(hourMs) - widthAfter(0) >= 3_590);
  });

  it('a service that never answered has no time', () => {
    const clock = watchServiceClock();
    clock.learn({ sentAt: 0, receivedAt: 1, date: new Date('no date') });
    assert.throws(() => clock.now(), /is not known yet/);
  });
});
