/** A terminal shows that it moves; a log is told at the start, now and then, and at the end. */
const everyMs = { terminal: 1_000, log: 30_000 };

/**
 * Shows what is under way for as long as it takes: on a terminal as one line that is rewritten with
 * the time that it took so far, elsewhere as a line now and one every half minute. In plain
 * JavaScript, because it shows the installation of everything else.
 *
 * @param stream Where to, such as process.stderr.
 * @param doing What is under way, in words; `now` changes them, `end` puts the last line there.
 */
export function showProgress(stream, doing) {
  const startedMs = Date.now();
  const took = () => `(${Math.round((Date.now() - startedMs) / 1000)} s)`;
  let words = doing;
  const write = (line, time = '') => {
    if (!stream.isTTY) return stream.write(`${[line, time].join(' ').trim()}\n`);
    // One that wraps could not be rewritten; the time is what is seen to move.
    const room = (stream.columns ?? 80) - 1 - (time === '' ? 0 : time.length + 1);
    stream.write(`\r\u001b[2K${[line.slice(0, room), time].join(' ').trim()}`);
  };
  const show = () => write(`triplock: ${words}`, took());
  write(`triplock: ${words}`);
  const timer = setInterval(show, stream.isTTY ? everyMs.terminal : everyMs.log);
  return {
    now(doingNow) {
      words = doingNow;
      if (stream.isTTY) show();
    },
    end(done) {
      clearInterval(timer);
      write(`triplock: ${done}`, took());
      if (stream.isTTY) stream.write('\n');
    },
  };
}
