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

// errNoBroker is the state in which no connection to any bootstrap broker comes about. What kafka-go says of it depends on what it
// knew of the cluster last: that a partition has no leader, or that one of the brokers refuses connections.
var errNoBroker = errors.New("no broker of KAFKA_BROKERS can be reached")

// reach remembers why the last connection to each bootstrap broker failed. It is safe for concurrent use.
type reach struct {
	mu     sync.Mutex
	failed map[string]error // by address; a broker that was connected to since is not in it
}

// note keeps what became of a connection to an address.
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

// none is an errNoBroker with the cause for each of the brokers, nil if the last connection to one of them came about, or none was
// tried.
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

// causeOf is what an error about a broker says beside that the broker cannot be reached.
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

// unanswered is an error of a request, or that no broker can be reached, if that is the reason.
func (c *connector) unanswered(err error) error {
	if Classify(err) != Retry || errors.Is(err, context.Canceled) {
		return err
	}
	if none := c.reach.none(c.bootstrap); none != nil {
		return none
	}
	return err
}
