import type { RunMode } from './choices.ts';
import { askEngine, missingImages } from './containers/engine.ts';
import { CommandError } from '@triplock/command';
import { allParts } from './parts/start-parts.ts';
import type { Report, Session } from './session.ts';

/** How a system is run, and whether the other way is tried when this one fails. */
export type Chosen = { parts: RunMode; otherwise?: 'docker' };

/**
 * How the home runs. Its data is in the volumes of the one or in the folder of the other.
 *
 * @param asked `choose`: as it runs already, or as what is there on this machine makes wise.
 * @throws CommandError when it has data of the other.
 */
export async function runModeOf(
  { state, report }: Session,
  asked: RunMode | 'choose' | undefined,
): Promise<Chosen> {
  const before = state.parts;
  if (asked === 'choose') return before === undefined ? chooseParts(report) : { parts: before };
  if (asked !== undefined && before !== undefined && asked !== before) {
    throw new CommandError(
      `this home runs with --parts ${before} and its data does not move: take another --home, or forget the data (npm run down -- --volumes)`,
    );
  }
  return { parts: asked ?? before ?? 'native' };
}

/**
 * What nobody decided, as tests do it: containers where an engine is able and has the images, else
 * processes. Where a part cannot be had as a process an engine may still pull what it lacks; that
 * takes minutes, so nobody who has the parts waits for it.
 */
export async function chooseParts(report: Report): Promise<Chosen> {
  // Containers have their own parts.
  if (allParts.some(({ given }) => process.env[given.variable]?.trim())) return { parts: 'native' };
  const engine = await askEngine();
  switch (engine.outcome) {
    case 'silent':
      return { parts: 'native' };
    case 'unfit':
      report(`processes rather than containers: ${engine.because}`);
      return { parts: 'native' };
    case 'able': {
      const missing = await missingImages();
      if (missing.length > 0) {
        report(`processes rather than containers: the engine has no ${missing.join(', ')}`);
        return { parts: 'native', otherwise: 'docker' };
      }
      report('containers: an engine answers and has the images (--parts native takes processes)');
      return { parts: 'docker' };
    }
    default:
      return engine satisfies never;
  }
}
