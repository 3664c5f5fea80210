package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// What a transaction's local work and its check say, by the message's body.
type transactions struct {
	states  map[string][]string
	lock    sync.Mutex
	checks  chan struct{}
	Checked []string `json:"checked"`
}

// transact NAMESERVERS TOPIC GROUP CHECKS SECONDS BODY:LOCAL:CHECK…
func transact(arguments []string) *transactions {
	own := &transactions{states: map[string][]string{}, checks: make(chan struct{}, 1000), Checked: []string{}}
	made, problem := rocketmq.NewTransactionProducer(
		own,
		producer.WithGroupName(arguments[2]),
		producer.WithNameServer(strings.Split(arguments[0], ";")),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(20*time.Second),
	)
	check(problem)
	check(made.Start())
	for _, text := range arguments[5:] {
		parts := strings.Split(text, ":")
		own.states[parts[0]] = parts
	}
	for _, text := range arguments[5:] {
		parts := strings.Split(text, ":")
		if parts[1] != "none" {
			message := primitive.NewMessage(arguments[1], []byte(parts[0])).WithKeys([]string{parts[0]})
			_, problem := made.SendMessageInTransaction(context.Background(), message)
			check(problem)
		}
	}
	over := time.After(time.Duration(integer(arguments[4])) * time.Second)
	for count := integer(arguments[3]); count > 0; count-- {
		select {
		case <-own.checks:
		case <-over:
			count = 0
		}
	}
	// The last answer is on its way.
	time.Sleep(500 * time.Millisecond)
	check(made.Shutdown())
	own.lock.Lock()
	defer own.lock.Unlock()
	return own
}

func (t *transactions) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	return t.state(message.Body, 1)
}

func (t *transactions) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	t.lock.Lock()
	t.Checked = append(t.Checked, string(message.Body))
	t.lock.Unlock()
	defer func() { t.checks <- struct{}{} }()
	return t.state(message.Body, 2)
}

func (t *transactions) state(body []byte, part int) primitive.LocalTransactionState {
	switch parts := t.states[string(body)]; {
	case parts == nil:
		return primitive.UnknowState
	case parts[part] == "commit":
		return primitive.CommitMessageState
	case parts[part] == "rollback":
		return primitive.RollbackMessageState
	default:
		return primitive.UnknowState
	}
}
