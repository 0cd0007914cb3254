package sink

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/bucketer"
	"waterwheel/internal/mongodb"
)

// classify tells the result of each of the n writes of one command, for inserts and updates alike. It goes by closed lists: any
// answer that is on none of them is Unknown.
func classify(n int, reply mongodb.Reply, err error) []bucketer.Sent {
	if err != nil {
		return slices.Repeat([]bucketer.Sent{classifyError(err)}, n)
	}
	sent := make([]bucketer.Sent, n)
	failed := map[int]bucketer.Sent{}
	for _, e := range reply.Errors {
		if e.Index >= 0 && e.Index < n {
			failed[e.Index] = classifyCode(e.Code, e.Message)
		}
	}
	doubt := reply.Unconfirmed
	if executed := n - len(failed); doubt == nil && reply.N != executed {
		doubt = fmt.Errorf("MongoDB applied %d of %d writes, and reported no error for the others", reply.N, executed)
	}
	for i := range sent {
		if s, ok := failed[i]; ok {
			sent[i] = s
		} else if doubt != nil {
			sent[i] = bucketer.Sent{Result: bucketer.Unknown, Err: doubt}
		}
	}
	return sent
}

// withoutShardKey makes a refusal of a failed insert whose meta is an array. A shard key takes no array, so no shard ever
// accepts the document. MongoDB gives the same code to writes into a collection that is sharded by something else, which is not
// the document's fault.
func withoutShardKey(w *bucketer.Write, s bucketer.Sent) bucketer.Sent {
	if s.Code != mongodb.CodeShardKeyNotFound || w.Kind != bucketer.Insert || w.Meta.Type != bson.TypeArray {
		return s
	}
	return bucketer.Sent{
		Result: bucketer.Refused, Code: s.Code,
		Message: "its meta is an array, and the collection is sharded by the meta: a shard key cannot contain an array: " + s.Message,
	}
}

// classifyError tells the result of every write of a command that failed as a whole.
func classifyError(err error) bucketer.Sent {
	var notSent *mongodb.NotSentError
	var command *mongodb.CommandError
	switch {
	case errors.As(err, &notSent), errors.As(err, &command) && mongodb.ClassOf(command.Code) == mongodb.NotPrimary:
		return bucketer.Sent{Result: bucketer.NotExecuted, Err: err}
	case command != nil:
		s := classifyCode(command.Code, command.Message)
		// The cause of a refused command may be something else than its document.
		if s.Result == bucketer.Refused && command.Code != mongodb.CodeObjectTooLarge {
			s.Err = err
		}
		return s
	default:
		return bucketer.Sent{Result: bucketer.Unknown, Err: err}
	}
}

// classifyCode tells what an answer to one write means.
func classifyCode(code int32, message string) bucketer.Sent {
	s := bucketer.Sent{Result: bucketer.Refused, Code: code, Message: message, TooLarge: mongodb.ClassOf(code) == mongodb.TooLarge}
	if !mongodb.ClassOf(code).BlamesDocument() {
		s.Result, s.Err = bucketer.Unknown, &mongodb.CommandError{Code: code, Message: message}
	}
	return s
}

// refusedWhole reports whether MongoDB refused a whole command for the content of some of its documents. The answer does not
// tell which.
func refusedWhole(err error) bool {
	var command *mongodb.CommandError
	return errors.As(err, &command) && mongodb.ClassOf(command.Code).BlamesDocument()
}
