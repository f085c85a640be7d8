import { missingImages } from './containers/engine-has-images.ts';
import { askEngine } from './containers/engine.ts';
import { allParts } from './parts/all-parts.ts';
import type { Report } from './session.ts';

/**
 * How a system that has no data yet is run, and whether the other way is tried when this one fails.
 */
export type Chosen = { parts: 'native' | 'docker'; otherwise?: 'docker' };

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
