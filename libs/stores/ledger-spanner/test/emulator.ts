import {
  containerStartsWithinMs,
  findPortsOnThisMachine,
  rareTestPart,
  type ContainerPart,
} from '@triplock/testing';
import { spannerEmulator } from '../part.ts';

/** `host:port` of an emulator that tests share. */
export function testSpanner(): Promise<string> {
  const options = ['--ledger', 'spanner'];
  return rareTestPart({ part: spannerEmulator, options, startContainer });
}

async function startContainer(): Promise<ContainerPart> {
  findPortsOnThisMachine();
  const { SpannerEmulatorContainer } = await import('@testcontainers/gcloud');
  const container = await new SpannerEmulatorContainer(spannerEmulator.container.image.name)
    .withStartupTimeout(containerStartsWithinMs)
    .start();
  const address = container.getEmulatorGrpcEndpoint();
  return { address, stop: async () => void (await container.stop()) };
}
