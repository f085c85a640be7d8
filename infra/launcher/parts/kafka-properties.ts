import type { Site } from './part.ts';

/** The broker's configuration file. */
export function kafkaProperties({ ports, log }: Pick<Site, 'ports'> & { log: string }): string {
  const broker = `127.0.0.1:${ports['port']}`;
  const controller = `127.0.0.1:${ports['controller']}`;
  const properties = {
    'process.roles': 'broker,controller',
    'node.id': '1',
    'controller.quorum.voters': `1@${controller}`,
    listeners: `PLAINTEXT://${broker},CONTROLLER://${controller}`,
    'advertised.listeners': `PLAINTEXT://${broker}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'log.dirs': escaped(log),
    // A misspelt topic must be an error, not a new topic with one partition.
    'auto.create.topics.enable': 'false',
    // A lone consumer need not wait for others to join it.
    'group.initial.rebalance.delay.ms': '0',
    'offsets.topic.replication.factor': '1',
    'transaction.state.log.replication.factor': '1',
    'transaction.state.log.min.isr': '1',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
    // One broker with a handful of groups: fewer partitions to load at every start.
    'offsets.topic.num.partitions': '8',
  };
  return Object.entries(properties)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

/** A backslash begins an escape in Java's properties format. */
function escaped(path: string): string {
  return path.replaceAll('\\', '\\\\');
}
