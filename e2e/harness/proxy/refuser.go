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

// Rule decides about one write, which is a document to insert or a statement of an update. Nil lets it pass. Calls may overlap.
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
	uri string

	mu      sync.Mutex
	rule    Rule
	refused map[int32]int
}

// NewRefuser listens for connections to the server at uri. The caller closes the refuser.
func NewRefuser(uri string) (*Refuser, error) {
	r := &Refuser{refused: map[int32]int{}}
	var err error
	r.Proxy, r.uri, err = NewMessagesOf(uri, r.decide)
	return r, err
}

// URI returns the server's URI with the refuser's address.
func (r *Refuser) URI() string { return r.uri }

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

// decide applies the present rule to a request, and counts its refusals.
func (r *Refuser) decide(m Message) Decision {
	r.mu.Lock()
	rule := r.rule
	r.mu.Unlock()
	asked, ok := Parse(m)
	if !ok {
		return Decision{Forward: m}
	}
	s := filterWrites(asked, rule)
	if s == nil {
		return Decision{Forward: m}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range s.codes {
		r.refused[code]++
	}
	if len(s.kept) > 0 {
		return Decision{Forward: s.without(asked).Build(m), Change: s.join}
	}
	reply, err := Answer(m, s.alone())
	if err != nil {
		panic(err) // these values can be encoded
	}
	return Decision{Reply: reply}
}

// filtered is a command with some writes refused.
type filtered struct {
	whole  *Refusal
	kept   []int // the indexes of the writes that pass
	errors bson.A
	codes  []int32
}

// filterWrites applies the rule to each write of a command. It returns nil if all writes pass.
func filterWrites(c Command, rule Rule) *filtered {
	kind, collection, ok := c.Write()
	if !ok || rule == nil {
		return nil
	}
	s := &filtered{}
	for i, write := range c.Documents {
		refusal := rule(collection, write)
		switch {
		case refusal == nil:
			s.kept = append(s.kept, i)
			continue
		case refusal.Whole:
			return &filtered{whole: refusal, codes: []int32{refusal.Code}}
		}
		s.codes = append(s.codes, refusal.Code)
		s.errors = append(s.errors, bson.D{
			{Key: "index", Value: int32(i)}, {Key: "code", Value: refusal.Code}, {Key: "errmsg", Value: kind + ": " + refusal.Message},
		})
	}
	if len(s.errors) == 0 {
		return nil
	}
	return s
}

// without returns the command for the server, without the refused writes.
func (s *filtered) without(c Command) Command {
	left := Command{Body: c.Body, Sequence: c.Sequence}
	for _, i := range s.kept {
		left.Documents = append(left.Documents, c.Documents[i])
	}
	return left
}

// alone returns the answer to a command of which the server gets nothing.
func (s *filtered) alone() bson.D {
	if s.whole != nil {
		return bson.D{{Key: "ok", Value: float64(0)}, {Key: "code", Value: s.whole.Code}, {Key: "errmsg", Value: s.whole.Message}}
	}
	return bson.D{{Key: "n", Value: int32(0)}, {Key: "writeErrors", Value: s.errors}, {Key: "ok", Value: float64(1)}}
}

// join adds the refusals to the server's answer. It changes the indexes of the server's errors to those of the whole command.
func (s *filtered) join(answer Message) (Message, error) {
	reply, ok := Parse(answer)
	if !ok {
		return answer, nil
	}
	var answered bson.D
	if err := bson.Unmarshal(reply.Body, &answered); err != nil {
		return nil, err
	}
	joined, all := bson.D{}, s.errors
	for _, e := range answered {
		if e.Key != "writeErrors" {
			joined = append(joined, e)
			continue
		}
		own, _ := e.Value.(bson.A)
		for _, w := range own {
			all = append(all, s.moved(w))
		}
	}
	var err error
	reply.Body, err = bson.Marshal(append(joined, bson.E{Key: "writeErrors", Value: all}))
	return reply.Build(answer), err
}

// moved changes the index of a server's write error to the index of the write in the whole command.
func (s *filtered) moved(writeError any) any {
	d, ok := writeError.(bson.D)
	if !ok {
		return writeError
	}
	for i, e := range d {
		if index, ok := e.Value.(int32); ok && e.Key == "index" && int(index) < len(s.kept) {
			d[i].Value = int32(s.kept[index])
		}
	}
	return d
}
