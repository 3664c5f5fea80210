package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const moment = time.Second

type deliveries struct {
	lock sync.Mutex
	// Number, queue id, queue offset, reconsume times, store time less born time.
	All  [][5]int64 `json:"deliveries"`
	open int
	done chan struct{}
}

func consume(arguments []string) *deliveries {
	taken := &deliveries{All: [][5]int64{}, open: integer(arguments[5]), done: make(chan struct{})}
	push := pushConsumer(arguments, taken.takeAll)
	select {
	case <-taken.done:
	case <-time.After(time.Duration(integer(arguments[6])) * time.Second):
	}
	time.Sleep(moment)
	waitForTraces()
	check(push.Shutdown())
	taken.lock.Lock()
	return taken
}

// watch prints each delivery at once, until standard input ends; then it leaves its group. In the mode reply it also
// replies to each.
func watch(arguments []string) string {
	var lock sync.Mutex
	lines := json.NewEncoder(os.Stdout)
	var replier rocketmq.Producer
	if arguments[3] == "reply" {
		replier = newReplier(arguments)
	}
	push := pushConsumer(arguments, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, message := range messages {
			number, _ := readBody(message.Body)
			check(lines.Encode([]any{
				number,
				message.Queue.BrokerName,
				message.Queue.QueueId,
				message.QueueOffset,
				message.ReconsumeTimes,
				time.Now().UnixMilli(),
			}))
			if replier != nil {
				replyTo(replier, message)
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	lock.Lock()
	check(lines.Encode("ready"))
	lock.Unlock()
	_, problem := io.ReadAll(os.Stdin)
	check(problem)
	check(push.Shutdown())
	return "closed"
}

func newReplier(arguments []string) rocketmq.Producer {
	own, problem := rocketmq.NewProducer(
		producer.WithGroupName("repliers-"+arguments[1]),
		producer.WithInstanceName(fmt.Sprint("replier", os.Getpid())),
		producer.WithNameServer(strings.Split(arguments[0], ";")),
		producer.WithSendMsgTimeout(patience),
	)
	check(problem)
	check(own.Start())
	return own
}

// replyTo builds the message by hand: the client's own helper drops the body.
func replyTo(replier rocketmq.Producer, request *primitive.MessageExt) {
	reply := primitive.NewMessage(request.GetProperty("CLUSTER")+"_REPLY_TOPIC", append([]byte("re:"), request.Body...))
	reply.WithProperty("MSG_TYPE", "reply")
	for _, name := range []string{"CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"} {
		reply.WithProperty(name, request.GetProperty(name))
	}
	// Whoever asked may have given up.
	if _, problem := replier.SendSync(context.Background(), reply); problem != nil {
		fmt.Fprintln(os.Stderr, problem)
	}
}

type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// pushConsumer starts one with NAMESERVERS TOPIC GROUP MODE EXPRESSION.
func pushConsumer(arguments []string, handle handler) rocketmq.PushConsumer {
	nameServers, topic, group, mode, expression := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]
	model := consumer.Clustering
	if mode == "broadcast" {
		model = consumer.BroadCasting
	}
	options := []consumer.Option{
		consumer.WithGroupName(group),
		// Otherwise two that broadcast share the file with their offsets.
		consumer.WithInstance(fmt.Sprint("pid", os.Getpid())),
		consumer.WithNameServer(strings.Split(nameServers, ";")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(mode == "orderly"),
		consumer.WithMaxReconsumeTimes(1),
	}
	if traced() {
		options = append(options, consumer.WithTrace(traceConfig(nameServers, group)))
	}
	push, problem := rocketmq.NewPushConsumer(options...)
	check(problem)
	check(push.Subscribe(topic, selectorOf(expression), handle))
	check(push.Start())
	return push
}

// selectorOf is for tags, or for SQL if that stands before the expression.
func selectorOf(expression string) consumer.MessageSelector {
	if sql, isSQL := strings.CutPrefix(expression, "sql:"); isSQL {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: sql}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
}

func (d *deliveries) takeAll(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	result := consumer.ConsumeSuccess
	for _, message := range messages {
		number, failures := readBody(message.Body)
		d.All = append(d.All, [5]int64{
			int64(number),
			int64(message.Queue.QueueId),
			message.QueueOffset,
			int64(message.ReconsumeTimes),
			message.StoreTimestamp - message.BornTimestamp,
		})
		if int(message.ReconsumeTimes) < failures {
			result = consumer.ConsumeRetryLater
		}
		if d.open--; d.open == 0 {
			close(d.done)
		}
	}
	return result, nil
}
