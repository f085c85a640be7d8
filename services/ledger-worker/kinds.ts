import type { FollowUpKind } from '@triplock/payments';
import type { AttemptOutcome, Worker } from './worker.ts';
import { cancellation } from './kinds/cancellation.ts';
import { capture } from './kinds/capture.ts';
import type { CarryOut, FollowUpToDo } from './kinds/follow-up.ts';
import { refund } from './kinds/refund.ts';
import { workerAt } from './providers.ts';

/** What the provider is asked for by each kind that follows a payment. */
const dialogues: Readonly<Record<FollowUpKind, CarryOut>> = {
  refund,
  capture,
  cancellation,
};

/** Has the provider do what follows a payment, once, and settles it. */
export function carryOut(anyone: Worker, given: FollowUpToDo): Promise<AttemptOutcome> {
  const { kind, provider } = given.followUp;
  return dialogues[kind](workerAt(anyone, provider.name), given);
}
