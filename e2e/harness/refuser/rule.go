package refuser

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/e2e/harness/wire"
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

// sifted is a command with some writes refused.
type sifted struct {
	whole  *Refusal
	kept   []int // the indexes of the writes that pass
	errors bson.A
	codes  []int32
}

// sift applies the rule to each write of a command. It returns nil if all writes pass.
func sift(c wire.Command, rule Rule) *sifted {
	kind, collection, ok := c.Write()
	if !ok || rule == nil {
		return nil
	}
	s := &sifted{}
	for i, write := range c.Documents {
		refusal := rule(collection, write)
		switch {
		case refusal == nil:
			s.kept = append(s.kept, i)
			continue
		case refusal.Whole:
			return &sifted{whole: refusal, codes: []int32{refusal.Code}}
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
func (s *sifted) without(c wire.Command) wire.Command {
	left := wire.Command{Body: c.Body, Sequence: c.Sequence}
	for _, i := range s.kept {
		left.Documents = append(left.Documents, c.Documents[i])
	}
	return left
}

// alone returns the answer to a command of which the server gets nothing.
func (s *sifted) alone() bson.D {
	if s.whole != nil {
		return bson.D{{Key: "ok", Value: float64(0)}, {Key: "code", Value: s.whole.Code}, {Key: "errmsg", Value: s.whole.Message}}
	}
	return bson.D{{Key: "n", Value: int32(0)}, {Key: "writeErrors", Value: s.errors}, {Key: "ok", Value: float64(1)}}
}

// join adds the refusals to the server's answer. It changes the indexes of the server's errors to those of the whole command.
func (s *sifted) join(reply bson.Raw) (bson.D, error) {
	var answered bson.D
	if err := bson.Unmarshal(reply, &answered); err != nil {
		return nil, err
	}
	joined := bson.D{}
	all := s.errors
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
	return append(joined, bson.E{Key: "writeErrors", Value: all}), nil
}

// moved changes the index of a server's write error to the index of the write in the whole command.
func (s *sifted) moved(writeError any) any {
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
