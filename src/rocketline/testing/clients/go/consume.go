package main

import (
	"context"
	"fmt"
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
	nameServers, topic, group, mode, expression := arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]
	taken := &deliveries{All: [][5]int64{}, open: integer(arguments[5]), done: make(chan struct{})}
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
	check(push.Subscribe(topic, selector, taken.takeAll))
	check(push.Start())
	select {
	case <-taken.done:
	case <-time.After(time.Duration(integer(arguments[6])) * time.Second):
	}
	time.Sleep(moment)
	check(push.Shutdown())
	taken.lock.Lock()
	return taken
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
