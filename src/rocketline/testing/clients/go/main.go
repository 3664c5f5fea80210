// Sends and consumes numbered messages with Apache's Go client:
//
//	send NAMESERVERS TOPIC KIND:FIRST:COUNT:FAILURES…
//	consume NAMESERVERS TOPIC GROUP MODE EXPRESSION COUNT SECONDS
//	watch NAMESERVERS TOPIC GROUP MODE EXPRESSION
//	transact NAMESERVERS TOPIC GROUP CHECKS SECONDS BODY:LOCAL:CHECK…
//
// Prints one line of JSON; watch prints one for each delivery. A message's body is its number and how often its consumer shall fail, such as 17/0.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	rlog.SetLogLevel("error")
	var result any
	switch arguments := os.Args[2:]; os.Args[1] {
	case "send":
		result = send(arguments[0], arguments[1], arguments[2:])
	case "consume":
		result = consume(arguments)
	case "watch":
		result = watch(arguments)
	case "transact":
		result = transact(arguments)
	default:
		panic("no such command: " + os.Args[1])
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

// traced tells whether clients write down what becomes of their messages.
func traced() bool {
	return os.Getenv("ROCKETLINE_TRACED") != ""
}

func traceConfig(nameServers, group string) *primitive.TraceConfig {
	return &primitive.TraceConfig{
		GroupName: group,
		Access:    primitive.Local,
		Resolver:  primitive.NewPassthroughResolver(strings.Split(nameServers, ";")),
	}
}

// waitForTraces lets what was written down leave: a client that shuts down does not wait for it.
func waitForTraces() {
	if traced() {
		time.Sleep(2 * time.Second)
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

func body(number, failures int) []byte {
	text := fmt.Sprintf("%d/%d", number, failures)
	if number%100 == 50 { // beyond 4,096 bytes a producer compresses
		text += strings.Repeat(" ", 5000-len(text))
	}
	return []byte(text)
}

func readBody(body []byte) (number, failures int) {
	first, second, _ := strings.Cut(strings.TrimSpace(string(body)), "/")
	return integer(first), integer(second)
}
