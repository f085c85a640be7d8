import {
  type CrashPointName,
  continueProcess,
  leaveDead,
  pauseProcess,
  runOf,
  type ServiceEndpoint,
  stopProcess,
  type Target,
  type ServiceName,
} from '@triplock/launcher';
import { BrokenPromise, FaultDidNotFire, fired, until, type Wait } from './promises.ts';
import { arm, disarm, readHits } from './services.ts';
import type { System } from './system.ts';

/** Where a service is to be hit. Every replica is armed, because any may get the work. */
export type CrashSite = { service: ServiceName; point: CrashPointName };

/**
 * Makes one replica die (SIGKILL from inside) at a crash point that `trigger` leads it to.
 * Resolves with that replica once its process is gone, and the others are disarmed.
 *
 * @throws FaultDidNotFire when none dies.
 */
export async function killAt(
  system: System,
  { service, point }: CrashSite,
  trigger: () => Promise<void>,
): Promise<ServiceEndpoint> {
  const { home } = system;
  const identify = async (replica: ServiceEndpoint): Promise<Identified> => {
    const target = { home, name: replica.name };
    return { replica, target, run: await runOf(target) };
  };
  const targets = await Promise.all(system.replicas(service).map(identify));
  try {
    for (const { replica, target } of targets) {
      await leaveDead(target);
      await arm(system, replica, { name: point, action: 'kill' });
    }
    await trigger();
    const { replica } = await untilFired(system, {
      fault: `no ${service} died at ${point}`,
      what: `a ${service} to die at ${point}`,
      check: () => firstGone(targets),
    });
    return replica;
  } finally {
    await Promise.all(targets.map((target) => disarmSurvivor(system, target, point)));
  }
}

/**
 * Waits for what a fault brings about.
 *
 * @throws FaultDidNotFire, completing "the fault did not fire: …", when it does not come.
 */
export async function untilFired<Value>(
  { signal }: System,
  { fault, ...wait }: Wait<Value> & { fault: string },
): Promise<Value> {
  return until({ signal, ...wait }).catch((error: unknown) => {
    if (signal.aborted || error instanceof BrokenPromise) throw error;
    throw new FaultDidNotFire(fault, { cause: error });
  });
}

/** Has every replica of a service stand still while `work` goes on. */
export function pauseDuring<Result>(
  system: System,
  service: ServiceName,
  work: () => Promise<Result>,
): Promise<Result> {
  const names = system.replicas(service).map(({ name }) => name);
  return pauseAllDuring(system, names, work);
}

/** Has processes stand still (SIGSTOP), connections open, while `work` goes on. */
export async function pauseAllDuring<Result>(
  { home }: System,
  names: readonly string[],
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    for (const name of names) await pauseProcess({ home, name });
    return await work();
  } finally {
    for (const name of names) await continueProcess({ home, name });
  }
}

/**
 * Makes the next request that reaches a crash point stand still there for a while, on whichever
 * replica it is.
 *
 * @throws FaultDidNotFire when none came there.
 */
export async function pauseAt<Result>(
  system: System,
  { service, point, pauseMs }: CrashSite & { pauseMs: number },
  work: () => Promise<Result>,
): Promise<Result> {
  const replicas = system.replicas(service);
  const hits = async () => {
    const each = await Promise.all(replicas.map((replica) => readHits(system, replica, point)));
    return each.reduce((sum, n) => sum + n, 0);
  };
  const before = await hits();
  try {
    for (const replica of replicas)
      await arm(system, replica, { name: point, action: 'pause', pauseMs });
    const result = await work();
    fired(`nothing stood still at ${point}`, (await hits()) > before);
    return result;
  } finally {
    await disarmAll(system, { service, point });
  }
}

/** From now on the crash point does nothing. */
export async function disarmAll(system: System, { service, point }: CrashSite): Promise<void> {
  await Promise.all(system.replicas(service).map((replica) => disarm(system, replica, point)));
}

/** Starts a dead replica again and gives its new process. */
export async function bringBack(system: System, died: ServiceEndpoint): Promise<ServiceEndpoint> {
  await system.restore();
  const back = system.endpoints.services.find(({ name }) => name === died.name);
  fired(`${died.name} has the same process as before`, back !== undefined && back.pid !== died.pid);
  return back;
}

/**
 * Asks every replica to finish and end (SIGTERM); resolves when all processes are gone.
 *
 * @throws FaultDidNotFire when one did not end by itself: it was killed, which is another fault.
 */
export async function stopAll(
  { home, replicas }: System,
  service: ServiceName,
): Promise<ServiceEndpoint[]> {
  const targets = replicas(service);
  const ends = await Promise.all(targets.map(({ name }) => stopProcess({ home, name })));
  fired(`a ${service} did not end after SIGTERM`, !ends.some((end) => end.outcome === 'killed'));
  return targets;
}

type Identified = { replica: ServiceEndpoint; target: Target; run: string | undefined };

async function firstGone(targets: readonly Identified[]): Promise<Identified | undefined> {
  const gone = await Promise.all(targets.map(isGone));
  return targets.find((_, index) => gone[index]);
}

async function isGone({ target, run }: Identified): Promise<boolean> {
  return run === undefined || (await runOf(target)) !== run;
}

/** Dying disarms as well. */
async function disarmSurvivor(
  system: System,
  target: Identified,
  point: CrashPointName,
): Promise<void> {
  if (await isGone(target)) return;
  await disarm(system, target.replica, point).catch(async (error: unknown) => {
    if (!(await isGone(target))) throw error;
  });
}
