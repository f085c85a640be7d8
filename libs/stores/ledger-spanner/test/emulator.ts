import { rareTestPart } from '@triplock/testing';
import { spannerEmulator } from '../part.ts';

/** `host:port` of an emulator that tests share. */
export function testSpanner(): Promise<string> {
  const options = ['--ledger', 'spanner'];
  return rareTestPart({ part: spannerEmulator, options, startContainer });
}

async function startContainer(withinMs: number) {
  const { SpannerEmulatorContainer } = await import('@testcontainers/gcloud');
  const container = await new SpannerEmulatorContainer(spannerEmulator.container.image.name)
    .withStartupTimeout(withinMs)
    .start();
  return { container, address: container.getEmulatorGrpcEndpoint() };
}
