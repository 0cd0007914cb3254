package proxy

import (
	"maps"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Refusal is the error with which a write is refused.
type Refusal struct {
	Code    int32
	Message string
	// Whole refuses the whole command, so that none of its writes is executed. Otherwise only this write is refused.
	Whole bool
}

// Rule decides about one write, which is a document to insert or a statement of an update. Nil lets it pass. Calls do not overlap.
type Rule func(collection string, write bson.Raw) *Refusal

// These are MongoDB's answers when it takes no writes at the moment, no matter what the writes hold.

// NoPrimary is the answer during an election.
func NoPrimary() Refusal {
	return Refusal{Code: 10107, Message: "not primary", Whole: true}
}

// FullDisk is the answer of a server without disk space, which can only be read.
func FullDisk() Refusal { return Refusal{Code: 14031, Message: "No space left on device"} }

// Throttled is the answer of a server that limits the request rate.
func Throttled() Refusal { return Refusal{Code: 16500, Message: "Request rate is large"} }

// Unauthorized is the answer to a user without the privilege.
func Unauthorized() Refusal {
	return Refusal{Code: 13, Message: "not authorized to execute the command", Whole: true}
}

// AllBuckets refuses every write of a bucket with the given refusal.
func AllBuckets(with Refusal) Rule {
	return func(collection string, _ bson.Raw) *Refusal {
		if !strings.HasSuffix(collection, ".buckets") {
			return nil
		}
		return &with
	}
}

// Refuser imitates a MongoDB that refuses writes as a test tells it to. It suits a server that has no validators, privileges or
// full disk of its own. All other messages reach the server. Its methods may be called by several goroutines.
type Refuser struct {
	*Proxy

	mu      sync.Mutex
	rule    Rule
	refused map[int32]int
}

// NewRefuser listens for connections to the server at uri. The caller closes the refuser.
func NewRefuser(uri string) (_ *Refuser, err error) {
	r := &Refuser{refused: map[int32]int{}}
	r.Proxy, err = NewMessages(uri, r.decide)
	return r, err
}

// Obey sets the rule from now on. Nil refuses nothing.
func (r *Refuser) Obey(rule Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule = rule
}

// Refused returns the number of refusals so far, by error code.
func (r *Refuser) Refused() map[int32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.refused)
}

// decide applies the present rule to each write of a request, and counts the refusals.
func (r *Refuser) decide(m Message) Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked, ok := Parse(m)
	kind, collection, writes := asked.Write()
	if !ok || !writes || r.rule == nil {
		return Decision{Forward: m}
	}
	var kept []int // indexes of the writes that pass
	var refused bson.A
	refusals := map[int32]int{}
	passed := Command{Body: asked.Body, Sequence: asked.Sequence}
	for i, write := range asked.Documents {
		refusal := r.rule(collection, write)
		switch {
		case refusal == nil:
			kept = append(kept, i)
			passed.Documents = append(passed.Documents, write)
			continue
		case refusal.Whole:
			r.refused[refusal.Code]++
			return answer(m, bson.D{{Key: "ok", Value: float64(0)}, {Key: "code", Value: refusal.Code}, {Key: "errmsg", Value: refusal.Message}})
		}
		refusals[refusal.Code]++
		refused = append(refused, bson.D{
			{Key: "index", Value: int32(i)}, {Key: "code", Value: refusal.Code}, {Key: "errmsg", Value: kind + ": " + refusal.Message},
		})
	}
	for code, n := range refusals {
		r.refused[code] += n
	}
	switch {
	case len(refused) == 0:
		return Decision{Forward: m}
	case len(kept) == 0:
		return answer(m, bson.D{{Key: "n", Value: int32(0)}, {Key: "writeErrors", Value: refused}, {Key: "ok", Value: float64(1)}})
	}
	return Decision{Forward: passed.Build(m), Change: func(answer Message) (Message, error) { return join(answer, refused, kept) }}
}

// join adds the refusals to the server's answer. The server's errors get the indexes that their writes have in the whole command,
// which kept holds.
func join(answer Message, refused bson.A, kept []int) (Message, error) {
	reply, ok := Parse(answer)
	if !ok {
		return answer, nil
	}
	var answered struct {
		Rest   map[string]any `bson:",inline"`
		Errors []struct {
			Index int32
			Rest  map[string]any `bson:",inline"`
		} `bson:"writeErrors"`
	}
	if err := bson.Unmarshal(reply.Body, &answered); err != nil {
		return nil, err
	}
	for _, e := range answered.Errors {
		e.Rest["index"] = e.Index
		if int(e.Index) < len(kept) {
			e.Rest["index"] = int32(kept[e.Index])
		}
		refused = append(refused, e.Rest)
	}
	answered.Rest["writeErrors"] = refused
	var err error
	reply.Body, err = bson.Marshal(answered.Rest)
	return reply.Build(answer), err
}
