// Apache's Go client under load, told what to do line by line: see load/__init__.py.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type outcome struct {
	Messages int64   `json:"messages"`
	Seconds  float64 `json:"seconds"`
	Failures int64   `json:"failures"`
	Problem  string  `json:"problem"`
	lock     sync.Mutex
}

func main() {
	rlog.SetLogLevel("error")
	servers := strings.Split(os.Args[1], ";")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), " ")
		result := &outcome{}
		switch words[0] {
		case "send":
			result.send(servers, words)
		case "consume":
			result.consume(servers, words)
		default:
			panic("no such command: " + words[0])
		}
		check(json.NewEncoder(os.Stdout).Encode(result))
	}
}

func (o *outcome) send(servers, words []string) {
	topic, how, callers := words[1], words[2], integer(words[3])
	span := time.Duration(float(words[4]) * float64(time.Second))
	body := make([]byte, integer(words[5]))
	own, problem := rocketmq.NewProducer(
		producer.WithGroupName("load-"+how),
		producer.WithInstanceName(fmt.Sprint(time.Now().UnixNano())),
		producer.WithNameServer(servers),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	check(problem)
	check(own.Start())
	_, problem = own.SendSync(context.Background(), primitive.NewMessage(topic, body))
	check(problem)
	start := time.Now()
	end := start.Add(span)
	if how == "async" {
		o.async(own, topic, body, callers, end)
	} else {
		o.blocking(own, topic, body, callers, end)
	}
	o.Seconds = time.Since(start).Seconds()
	check(own.Shutdown())
}

func (o *outcome) blocking(own rocketmq.Producer, topic string, body []byte, callers int, end time.Time) {
	var open sync.WaitGroup
	for i := 0; i < callers; i++ {
		open.Add(1)
		go func() {
			defer open.Done()
			for time.Now().Before(end) {
				o.note(own.SendSync(context.Background(), primitive.NewMessage(topic, body)))
			}
		}()
	}
	open.Wait()
}

func (o *outcome) async(own rocketmq.Producer, topic string, body []byte, window int, end time.Time) {
	free := make(chan struct{}, window)
	for time.Now().Before(end) {
		free <- struct{}{}
		check(own.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, problem error) {
			o.note(result, problem)
			<-free
		}, primitive.NewMessage(topic, body)))
	}
	for i := 0; i < window; i++ {
		free <- struct{}{}
	}
}

func (o *outcome) consume(servers, words []string) {
	batch, wanted := integer(words[3]), int64(integer(words[4]))
	var first, last atomic.Int64
	all := make(chan struct{})
	own, problem := rocketmq.NewPushConsumer(
		consumer.WithGroupName(words[2]),
		consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
		consumer.WithNameServer(servers),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeMessageBatchMaxSize(batch),
	)
	check(problem)
	check(own.Subscribe(words[1], consumer.MessageSelector{}, func(
		_ context.Context, messages ...*primitive.MessageExt,
	) (consumer.ConsumeResult, error) {
		now := time.Now().UnixNano()
		first.CompareAndSwap(0, now)
		if atomic.AddInt64(&o.Messages, int64(len(messages))) >= wanted && last.CompareAndSwap(0, now) {
			close(all)
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(own.Start())
	select {
	case <-all:
	case <-time.After(time.Duration(integer(words[5])) * time.Second):
		last.Store(time.Now().UnixNano())
		o.Failures, o.Problem = 1, "not all messages came in time"
	}
	o.Seconds = float64(last.Load()-first.Load()) / 1e9
	check(own.Shutdown())
}

func (o *outcome) note(result *primitive.SendResult, problem error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	switch {
	case problem != nil:
		o.Failures++
		o.Problem = problem.Error()
	case result.Status != primitive.SendOK:
		o.Failures++
		o.Problem = result.String()
	default:
		o.Messages++
	}
}

func check(problem error) {
	if problem != nil {
		panic(problem)
	}
}

func integer(text string) int {
	number, problem := strconv.Atoi(text)
	check(problem)
	return number
}

func float(text string) float64 {
	number, problem := strconv.ParseFloat(text, 64)
	check(problem)
	return number
}
