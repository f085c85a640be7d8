import { stopProcess } from './faults.ts';
import { declarations, serviceOf } from './services.ts';
import type { Report } from './session.ts';
import { runningSystem } from './status.ts';
import { inStopOrder } from './stop-order.ts';

/**
 * Stops the pipeline's services of a home: first those that take work in, each with the time to
 * finish what it holds. The parts, and what stands for others, go on. Returns how many were
 * stopped.
 */
export async function stopServices(home: string, report: Report): Promise<number> {
  const { running: all } = await runningSystem(home);
  const running = all.filter((name) => declarations.some((each) => each.name === serviceOf(name)));
  for (const together of inStopOrder(running)) {
    await Promise.all(
      together.map(async (name) => {
        const { outcome } = await stopProcess({ home, name });
        report(`${name}: ${outcome}`);
      }),
    );
  }
  return running.length;
}
