package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
)

// errNoBroker means that no bootstrap broker can be connected to. kafka-go's own error depends on its last metadata. It may say
// that a partition has no leader, or that one broker refuses connections.
var errNoBroker = errors.New("no broker of KAFKA_BROKERS can be reached")

// reach remembers why the last connection to each bootstrap broker failed. It is safe for concurrent use.
type reach struct {
	mu     sync.Mutex
	failed map[string]error // by address, without brokers whose last connection succeeded
}

// note keeps the outcome of a connection to an address.
func (r *reach) note(address string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.failed, address)
		return
	}
	if r.failed == nil {
		r.failed = map[string]error{}
	}
	r.failed[address] = err
}

// none returns an errNoBroker with the cause for each broker. It is nil if the last connection to one of them succeeded or none
// was tried.
func (r *reach) none(brokers []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var causes []string
	for _, broker := range brokers {
		err := r.failed[broker]
		if err == nil {
			return nil
		}
		causes = append(causes, broker+": "+causeOf(broker, err))
	}
	if causes == nil {
		return nil
	}
	return fmt.Errorf("%w (%s)", errNoBroker, strings.Join(slices.Compact(causes), "; "))
}

// causeOf returns the cause in an error about a broker, without the words that the broker cannot be reached.
func causeOf(broker string, err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" && errors.Is(err, errUnreachable) && !errors.Is(err, errTokenAway) && !dial.Timeout() {
		if _, unknown := errors.AsType[*net.DNSError](err); !unknown {
			return dial.Err.Error()
		}
	}
	text := strings.TrimPrefix(err.Error(), broker+" ")
	if rest, ok := strings.CutPrefix(text, errUnreachable.Error()+" within "); ok {
		return "no answer within " + rest
	}
	return strings.TrimPrefix(text, errUnreachable.Error()+": ")
}

// unanswered returns the errNoBroker that explains the error of a request, or else the error itself.
func (c *connector) unanswered(err error) error {
	if Classify(err) != Retry || errors.Is(err, context.Canceled) {
		return err
	}
	if none := c.reach.none(c.bootstrap); none != nil {
		return none
	}
	return err
}
