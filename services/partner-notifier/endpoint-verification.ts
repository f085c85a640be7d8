import { createHash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto';
import type { EndpointQuestion } from '@triplock/partners';
import type { Pass } from '@triplock/runtime';
import type { EndpointAnswer, SendWebhook, WebhookRequest } from './webhook-client.ts';
import { disableIfGone, type Notifier } from './webhook-sender.ts';

/** Whether an endpoint has to prove that it wants webhooks. */
type VerificationPolicy = 'required' | 'off';

/** How endpoints are verified. `stopping` ends the questions that are under way. */
type Verification = { policy: VerificationPolicy; stopping: AbortSignal };

// Of endpoints whose servers do not answer; tests come on top. How many may be one partner's, who
// takes them says (take_endpoint_questions).
const askedAtOnce = 64;

/**
 * A pass that asks the endpoints that were set whether they want webhooks, and opens those that say
 * so; what is parked for them is then released. It also sends the tests that partners asked for,
 * and tells them of endpoints that were disabled.
 * The loop comes again at once while there are more, and waits for no answer but where too many
 * are asked: a server that is silent for ten seconds holds up no test. `onOpen` is called when an
 * endpoint was opened.
 *
 * An endpoint that is taken is written down as asked. So a crash before the answer, or between the
 * answer and the opening, costs the pause until the next question, which has another token. What
 * was proved of an endpoint that was changed meanwhile opens nothing. A test that was taken and
 * came to no end is one that its partner asks for again, and a notice comes again under its id.
 */
export function askEndpoints(
  notifier: Notifier,
  verification: Verification,
  onOpen: () => void = () => undefined,
): Pass & { settled(): Promise<unknown> } {
  const underWay = new Set<Promise<void>>();
  const ask = async (question: EndpointQuestion) => {
    try {
      if (question.notice !== null) return await sendNotice(notifier, question, verification);
      if (question.testId !== null) return await sendTest(notifier, question, verification);
      if (await verify(notifier, question, verification)) onOpen();
    } catch (err) {
      const { partnerId, id: endpointId } = question;
      const line = { err, partnerId, endpointId };
      notifier.logger.warn(line, 'webhook endpoint not asked, will be asked again');
    }
  };
  const pass = async () => {
    if (underWay.size >= askedAtOnce) await Promise.race(underWay);
    const which = verification.policy === 'required' ? 'paced' : 'all';
    const taken = await notifier.partners.takeQuestions(askedAtOnce - underWay.size, which);
    for (const question of taken) {
      const asked: Promise<void> = ask(question).finally(() => underWay.delete(asked));
      underWay.add(asked);
    }
    return taken.length;
  };
  return Object.assign(pass, { settled: () => Promise.all(underWay) });
}

/**
 * Whether this opened it.
 *
 * @throws when the database does not answer, or the key of a secret is not there.
 */
async function verify(
  notifier: Notifier,
  question: EndpointQuestion,
  { policy, stopping }: Verification,
): Promise<boolean> {
  const { partners, metrics, logger } = notifier;
  const { id, partnerId, url, asks } = question;
  if (policy === 'off') return partners.verifyEndpoint(question, 'WEBHOOK_VERIFICATION is off');
  const endpoint = { url, secrets: question.openSecrets() };
  const answer = await askEndpoint(notifier.send, endpoint, stopping);
  metrics.verifications.count(answer.outcome);
  const line = { partnerId, endpointId: id, asks };
  if (answer.outcome !== 'echoed') {
    await disableIfGone(notifier, question, answer);
    logger.warn({ ...line, ...answer }, 'webhook endpoint not verified');
    return false;
  }
  const because = 'its server echoed the token of a question';
  const opened = await partners.verifyEndpoint(question, because);
  logger.info({ ...line, opened }, 'webhook endpoint answered that it wants webhooks');
  return opened;
}

/** Sends an `endpoint.test`, signed and guarded as every webhook, and says what came back. */
async function sendTest(
  notifier: Notifier,
  question: EndpointQuestion,
  { stopping }: Verification,
): Promise<void> {
  const { id, url, testId } = question;
  const timestamp = new Date().toISOString();
  const data = { object: 'webhook_endpoint', id };
  const started = performance.now();
  const outcome = await notifier.send({
    endpoint: { url, secrets: question.openSecrets() },
    id: testId!,
    body: JSON.stringify({ type: 'endpoint.test', timestamp, data }),
    signal: AbortSignal.any([stopping, AbortSignal.timeout(questionMs)]),
  });
  const status = 'status' in outcome ? outcome.status : null;
  const tookMs = performance.now() - started;
  const result = { outcome: outcome.outcome, status, tookMs };
  await notifier.partners.answerTest(id, testId!, result);
  await disableIfGone(notifier, question, outcome);
}

/** Tells a partner, signed and guarded as every webhook, of an endpoint that was disabled. */
async function sendNotice(
  notifier: Notifier,
  question: EndpointQuestion,
  { stopping }: Verification,
): Promise<void> {
  const { id, partnerId, url, testId: noticeId, notice, asks } = question;
  const outcome = await notifier.send({
    endpoint: { url, secrets: question.openSecrets() },
    id: noticeId!,
    body: notice!,
    signal: AbortSignal.any([stopping, AbortSignal.timeout(questionMs)]),
  });
  const line = { partnerId, endpointId: id, noticeId, asks, ...outcome };
  if (outcome.outcome === 'delivered') {
    await notifier.partners.answerNotice(noticeId!);
    return notifier.logger.info(line, 'partner told of a disabled webhook endpoint');
  }
  notifier.logger.warn(line, 'partner not told of a disabled webhook endpoint, will be again');
  await disableIfGone(notifier, question, outcome);
}

// The look-up of the name, the connection and the whole answer.
const questionMs = 10_000;
// A token of 43 characters with what a framework may put around it.
const echoBytesMax = 4_096;

/**
 * Asks a server whether it wants webhooks: an `endpoint.verification`, signed and guarded as every
 * webhook, whose answer has to be a 2xx with the token of this very question, within 10 s: as text,
 * or as the `token` of a JSON object. A server that sends back whatever it gets does not pass.
 *
 * The token is kept nowhere, so that no answer is good for another question, URL or partner.
 */
export async function askEndpoint(
  send: SendWebhook,
  endpoint: WebhookRequest['endpoint'],
  signal: AbortSignal,
): Promise<EndpointAnswer> {
  const token = randomBytes(32).toString('base64url');
  const timestamp = new Date().toISOString();
  const body = JSON.stringify({ type: 'endpoint.verification', timestamp, data: { token } });
  const readAnswer = { bytesMax: echoBytesMax, timeoutMs: questionMs };
  const sent = await send({ endpoint, id: randomUUID(), body, signal, readAnswer });
  if (sent.outcome !== 'delivered') return sent;
  return { outcome: isSame(tokenOf(sent.answer ?? ''), token) ? 'echoed' : 'not-echoed' };
}

function tokenOf(answer: string): string {
  const text = answer.trim();
  try {
    const { token } = JSON.parse(text) as { token?: unknown };
    return typeof token === 'string' ? token : '';
  } catch {
    return text; // Not JSON: the token itself, or nothing that is one.
  }
}

/** In a time that does not depend on how much of them is the same. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => createHash('sha256').update(text).digest());
  return timingSafeEqual(a!, b!);
}
