import { openSpanner, type SpannerPlace } from '@triplock/spanner';
import type { ReceivedEvent } from '../inbox.ts';
import { writeEffects } from './effects.testing.ts';
import { openSpannerInbox } from './open-spanner-inbox.ts';

// A consumer that receives one event and does not live to acknowledge it, nor to commit the next
// one.
type Told = { store: SpannerPlace; done: ReceivedEvent; begun: ReceivedEvent };
const { store, done, begun } = JSON.parse(process.argv[2]!) as Told;
const inbox = openSpannerInbox(await openSpanner(store), 'a-consumer');
await inbox.receive(done, writeEffects);
await inbox.receive(begun, async (tx, events) => {
  await writeEffects(tx, events);
  process.kill(process.pid, 'SIGKILL');
  await new Promise(() => undefined);
});
