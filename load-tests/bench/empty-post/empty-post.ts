import { startHelper, type Helper } from '../start-helper.ts';

/** Where the empty POST listens, and the CPU time that its process has used so far. */
export type EmptyPostState = { url: string; cpuMicros: number };

/** A Fastify server whose `POST /v1/payments` does nothing, in a process of its own. */
export function startEmptyPost(signal: AbortSignal): Promise<Helper<object, EmptyPostState>> {
  return startHelper('empty-post/main.ts', signal);
}
