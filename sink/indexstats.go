package sink

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// errNotTold: the server answers, and not to what was asked.
var errNotTold = errors.New("this MongoDB does not tell")

// addSizes asks the server how large each index is.
func (s *series) addSizes(ctx context.Context, list *IndexList) {
	raw, err := s.driver().RunCommand(ctx, bson.D{{Key: "collStats", Value: s.buckets().Name()}}).Raw()
	if err != nil {
		list.NoSizes = s.db.Translate(err)
		return
	}
	sizes, ok := raw.Lookup("indexSizes").DocumentOK()
	if !ok {
		list.NoSizes = errNotTold
		return
	}
	for i := range list.Indexes {
		if n, ok := sizes.Lookup(list.Indexes[i].Name).AsInt64OK(); ok {
			list.Indexes[i].Bytes = n
		}
	}
}

// addUses asks the server how often each index was used: since it started, and of a sharded cluster by all shards together.
func (s *series) addUses(ctx context.Context, list *IndexList) {
	var stats []struct {
		Name     string `bson:"name"`
		Building bool   `bson:"building"`
		Accesses struct {
			Ops   int64     `bson:"ops"`
			Since time.Time `bson:"since"`
		} `bson:"accesses"`
	}
	cursor, err := s.buckets().Aggregate(ctx, bson.A{bson.D{{Key: "$indexStats", Value: bson.D{}}}})
	if err == nil {
		err = cursor.All(ctx, &stats)
	}
	if err != nil {
		list.NoUses = s.db.Translate(err)
		return
	}
	for i := range list.Indexes {
		index := &list.Indexes[i]
		for _, one := range stats {
			if one.Name != index.Name {
				continue
			}
			index.Building = index.Building || one.Building
			index.Uses = max(index.Uses, 0) + one.Accesses.Ops
			if index.Since.IsZero() || one.Accesses.Since.Before(index.Since) {
				index.Since = one.Accesses.Since
			}
		}
	}
	if len(stats) == 0 {
		list.NoUses = errNotTold
	}
}
