#!/usr/bin/env bash
# Title: A message of kafkajs or @platformatic/kafka keeps the fetched bytes around it in memory.
#
# The guess that is wrong: whoever reads a topic and keeps a few small messages of it, for a batch,
# a cache or a queue of its own, needs as much memory as those messages have bytes.
#
# Behaviour: both clients hand out a value as a view of the bytes that came from the broker, and not
# as a copy. One small value between large ones keeps what it came in: of 400 messages of 32 bytes,
# each between two of 20 000, the kept ones hold megabytes, hundreds of times their own size, for as
# long as they are kept. Buffer.from(value) gives that back.
#
# Versions: kafkajs 2.2.4 and @platformatic/kafka 2.12.1 on Node 24.21.0 and Kafka 4.3.1.
# Date: 2026-11-28. Needs: npm, Java 17, Maven; under a minute.
# Output seen:
#   kafkajs: 400 values of 32 bytes keep more than 100 times their bytes, copied 1
#   @platformatic/kafka: 400 values of 32 bytes keep more than 100 times their bytes, copied 1
set -euo pipefail

folder=$(mktemp -d)
pid=''
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; [ -z "$pid" ] || wait "$pid" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"

cat >pom.xml <<'XML'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId><artifactId>finding</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.3.1</version>
    </dependency>
  </dependencies>
</project>
XML
mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars >mvn.log 2>&1 || { tail -20 mvn.log && exit 1; }
npm init -y >/dev/null
npm install --silent --no-audit --no-fund node@24.21.0 kafkajs@2.2.4 @platformatic/kafka@2.12.1

port=$((20000 + RANDOM % 10000))
cat >server.properties <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$folder/log
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
PROPERTIES
kafka() { java -Xmx512m -cp "$folder/jars/*" "$@"; }
kafka kafka.tools.StorageTool format --cluster-id=MDEyMzQ1Njc4OWFiY2RlZg -c server.properties >format.log 2>&1
java -Xmx512m -cp "$folder/jars/*" kafka.Kafka server.properties >kafka.log 2>&1 &
pid=$!

cat >look.cjs <<'JS'
const { Kafka, logLevel } = require('kafkajs');
const { Consumer, MessagesStreamModes } = require('@platformatic/kafka');
const brokers = [process.argv[2]];
const topic = 'mixed';
const small = 32;
const many = 400;

/** What values have in bytes, and what is kept alive by them. */
function sizes(values) {
  const own = values.reduce((sum, value) => sum + value.length, 0);
  const held = [...new Set(values.map((value) => value.buffer))];
  return { own, held: held.reduce((sum, each) => sum + each.byteLength, 0) };
}

function report(who, kept) {
  const before = sizes(kept);
  const after = sizes(kept.map((value) => Buffer.from(new Uint8Array(value).slice().buffer)));
  const times = before.held / before.own;
  console.log(`${who}: ${kept.length} values of ${small} bytes keep ${times > 100 ? 'more than 100' : Math.round(times)} times their bytes, copied ${Math.round(after.held / after.own)}`);
  return kept.length === many && times > 100 && after.held === after.own;
}

async function byKafkajs(kafka) {
  const kept = [];
  const consumer = kafka.consumer({ groupId: 'one' });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((done) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        if (message.value.length === small) kept.push(message.value);
        if (kept.length === many) done();
      },
    });
  });
  await consumer.disconnect();
  return kept;
}

async function byPlatformatic() {
  const kept = [];
  const consumer = new Consumer({ groupId: 'other', clientId: 'other', bootstrapBrokers: brokers });
  const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.EARLIEST });
  for await (const { value } of stream) {
    if (value.length === small) kept.push(value);
    if (kept.length === many) break;
  }
  await consumer.close(true);
  return kept;
}

async function main() {
  const kafka = new Kafka({ clientId: 'one', brokers, logLevel: logLevel.NOTHING, retry: { retries: 30 } });
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
  await admin.disconnect();
  const producer = kafka.producer();
  await producer.connect();
  for (let n = 0; n < many; n += 20) {
    const messages = Array.from({ length: 20 }, () => [
      { value: Buffer.alloc(20_000, 1) },
      { value: Buffer.alloc(small, 2) },
    ]).flat();
    await producer.send({ topic, messages });
  }
  await producer.disconnect();
  const holds = [
    report('kafkajs', await byKafkajs(kafka)),
    report('@platformatic/kafka', await byPlatformatic()),
  ];
  process.exit(holds.every(Boolean) ? 0 : 1);
}
main();
JS
node_modules/node/bin/node look.cjs "127.0.0.1:$port"
