package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	batchSize = 50
	inFlight  = 32
	patience  = 20 * time.Second
)

type sender struct {
	producer rocketmq.Producer
	lock     sync.Mutex
	Sent     int    `json:"sent"`
	Failed   int    `json:"failed"`
	Problem  string `json:"problem"`
}

func send(nameServers, topic string, portions []string) *sender {
	options := []producer.Option{
		producer.WithGroupName("senders-" + topic),
		producer.WithNameServer(strings.Split(nameServers, ";")),
		// By sharding key where there is one, at random where there is none.
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
		// A send that is repeated after its time is up may be stored twice.
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(patience),
	}
	if traced() {
		options = append(options, producer.WithTrace(traceConfig(nameServers, "senders-"+topic)))
	}
	own, problem := rocketmq.NewProducer(options...)
	check(problem)
	check(own.Start())
	sender := &sender{producer: own}
	for _, portion := range portions {
		parts := strings.Split(portion, ":")
		sender.portion(topic, parts[0], integer(parts[1]), integer(parts[2]), integer(parts[3]))
	}
	waitForTraces()
	check(own.Shutdown())
	return sender
}

func (s *sender) portion(topic, kind string, first, count, failures int) {
	messages := make([]*primitive.Message, count)
	for i := range messages {
		number := first + i
		message := primitive.NewMessage(topic, body(number, failures))
		message.WithTag([]string{"even", "odd"}[number%2]).WithKeys([]string{fmt.Sprintf("k%d", number)})
		switch kind {
		case "delayed":
			message.WithDelayTimeLevel(1)
		case "timed":
			moment := time.Now().Add(2500 * time.Millisecond)
			message.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(moment.UnixMilli()))
		case "ordered":
			message.WithShardingKey(fmt.Sprint(number % 16))
		}
		messages[i] = message
	}
	switch kind {
	case "async":
		s.async(messages)
	case "request":
		s.request(messages)
	case "batch":
		for ; len(messages) > 0; messages = messages[min(batchSize, len(messages)):] {
			batch := messages[:min(batchSize, len(messages))]
			result, problem := s.producer.SendSync(context.Background(), batch...)
			s.count(len(batch), result, problem)
		}
	default:
		for _, message := range messages {
			s.one(kind, message)
		}
	}
}

func (s *sender) one(kind string, message *primitive.Message) {
	if kind == "oneway" {
		s.count(1, nil, s.producer.SendOneWay(context.Background(), message))
		return
	}
	result, problem := s.producer.SendSync(context.Background(), message)
	s.count(1, result, problem)
}

// request counts a message as sent once the right reply has come: the same text with re: before it.
func (s *sender) request(messages []*primitive.Message) {
	s.becomeKnown(messages[0].Topic)
	for _, message := range messages {
		asked := string(message.Body)
		reply, problem := s.producer.Request(context.Background(), patience, message)
		if problem == nil && string(reply.Body) != "re:"+asked {
			problem = fmt.Errorf("another reply: %s", reply.Body)
		}
		s.count(1, nil, problem)
	}
}

// becomeKnown asks until a reply comes: brokers know this client by its heartbeats alone, which it sends every 30 s.
func (s *sender) becomeKnown(topic string) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		message := primitive.NewMessage(topic, body(0, 0))
		if _, problem := s.producer.Request(context.Background(), 2*time.Second, message); problem == nil {
			return
		}
	}
	panic("no reply came for a minute")
}

func (s *sender) async(messages []*primitive.Message) {
	var open sync.WaitGroup
	free := make(chan struct{}, inFlight)
	for _, message := range messages {
		free <- struct{}{}
		open.Add(1)
		check(s.producer.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, problem error) {
			s.count(1, result, problem)
			<-free
			open.Done()
		}, message))
	}
	open.Wait()
}

// count takes note of what became of some messages; a one-way send has no result.
func (s *sender) count(messages int, result *primitive.SendResult, problem error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	switch {
	case problem != nil:
		s.Failed += messages
		s.Problem = problem.Error()
	case result != nil && result.Status != primitive.SendOK:
		s.Failed += messages
		s.Problem = result.String()
	default:
		s.Sent += messages
	}
}
