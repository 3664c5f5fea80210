'use strict';

// Sends and consumes numbered messages with ali-ons:
//
//   send NAMESERVERS TOPIC KIND:FIRST:COUNT:FAILURES…
//   consume NAMESERVERS TOPIC GROUP MODE EXPRESSION COUNT SECONDS
//
// Prints one line of JSON. A message's body is its number and how often its consumer shall fail, such as 17/0.

const { Consumer, Message, Producer } = require('ali-ons');

const IN_FLIGHT = 32;
const MOMENT_MS = 1000;

const logger = { debug() {}, info() {}, warn() {}, error: console.error };
const httpclient = {}; // required, and only used to look up name servers that are not given
const sleep = ms => new Promise(done => setTimeout(done, ms));

function numbered(topic, kind, number, failures) {
  let body = `${number}/${failures}`;
  if (number % 100 === 50) body = body.padEnd(5000); // beyond 4,096 bytes a producer compresses
  const message = new Message(topic, number % 2 ? 'odd' : 'even', body);
  message.keys = [`k${number}`];
  if (kind === 'delayed') message.delayTimeLevel = 1;
  if (kind === 'ordered') message.shardingKey = String(number % 16);
  return message;
}

async function send(nameSrv, topic, ...portions) {
  const producer = new Producer({
    nameSrv,
    httpclient,
    logger,
    producerGroup: `senders-${topic}`,
    sendMsgTimeout: 10000,
    retryTimesWhenSendFailed: 0, // a send that is repeated after its time is up may be stored twice
  });
  const result = { sent: 0, failed: 0, problem: '' };
  producer.on('error', error => (result.problem = String(error)));
  await producer.ready();
  for (const portion of portions) {
    const [kind, first, count, failures] = portion.split(':');
    let next = Number(first);
    const end = next + Number(count);
    const one = async () => {
      while (next < end) {
        try {
          const sent = await producer.send(numbered(topic, kind, next++, failures));
          if (sent.sendStatus !== 'SEND_OK') throw new Error(`status ${sent.sendStatus}`);
          result.sent++;
        } catch (error) {
          result.failed++;
          result.problem = String(error);
        }
      }
    };
    // Whoever wants order waits for each answer; the others need not.
    await Promise.all(Array.from({ length: kind === 'async' ? IN_FLIGHT : 1 }, one));
  }
  await producer.close();
  return result;
}

async function consume(nameSrv, topic, consumerGroup, mode, expression, count, seconds) {
  const deliveries = [];
  const consumer = new Consumer({
    nameSrv,
    httpclient,
    consumerGroup,
    logger,
    isBroadcast: mode === 'broadcast',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET',
    maxReconsumeTimes: 1,
  });
  const errors = [];
  consumer.on('error', error => errors.push(error));
  let complete;
  const all = new Promise(done => (complete = done));
  consumer.subscribe(topic, expression, async message => {
    const [number, failures] = message.body.toString().trim().split('/').map(Number);
    const lagMs = Number(message.storeTimestamp) - Number(message.bornTimestamp);
    const { queueId, queueOffset, reconsumeTimes } = message;
    deliveries.push([number, queueId, Number(queueOffset), reconsumeTimes, lagMs]);
    if (deliveries.length >= Number(count)) complete();
    if (reconsumeTimes < failures) throw new Error('planned failure');
  });
  await Promise.race([all, sleep(Number(seconds) * 1000)]);
  await sleep(MOMENT_MS);
  await consumer.close();
  const unplanned = errors.map(String).filter(text => !text.includes('planned failure'));
  return { deliveries, errors: unplanned };
}

const [command, ...rest] = process.argv.slice(2);
const commands = { send, consume };
commands[command](...rest).then(
  result => process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0)),
  error => {
    console.error(error);
    process.exit(1);
  },
);
