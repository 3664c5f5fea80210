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
	check(push.Shutdown())
	taken.lock.Lock()
	return taken
}

// watch prints each delivery at once, until standard input ends; then it leaves its group.
func watch(arguments []string) string {
	var lock sync.Mutex
	lines := json.NewEncoder(os.Stdout)
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

type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// pushConsumer starts one with NAMESERVERS TOPIC GROUP MODE EXPRESSION.
func pushConsumer(arguments []string, handle handler) rocketmq.PushConsumer {
	nameServers, topic, group, mode, expression := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]
	model := consumer.Clustering
	if mode == "broadcast" {
		model = consumer.BroadCasting
	}
	push, problem := rocketmq.NewPushConsumer(
		consumer.WithGroupName(group),
		// Otherwise two that broadcast share the file with their offsets.
		consumer.WithInstance(fmt.Sprint("pid", os.Getpid())),
		consumer.WithNameServer(strings.Split(nameServers, ";")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(mode == "orderly"),
		consumer.WithMaxReconsumeTimes(1),
	)
	check(problem)
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: expression}
	check(push.Subscribe(topic, selector, handle))
	check(push.Start())
	return push
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
