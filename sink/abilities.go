package sink

import (
	"context"
	"crypto/rand"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/internal/mongodb"
	"waterwheel/internal/timeseries"
)

// setsInTextOrder reports whether the server makes the new fields of one $set in the order of their names' text: tried on a
// scratch document beside the options, which is deleted again: the right to delete is tried first, so that nothing stays. A server on
// which that cannot be tried is taken to order numeric names by number, as MongoDB has done since 5.0.
func (s *series) setsInTextOrder(ctx context.Context) bool {
	scratch := s.driver().Collection(s.name + timeseries.OptionsSuffix)
	id := bson.D{{Key: "_id", Value: "probe-" + rand.Text()}}
	if _, err := scratch.DeleteOne(ctx, id); err != nil {
		return false
	}
	if _, err := scratch.InsertOne(ctx, append(id, bson.E{Key: "column", Value: bson.D{}})); err != nil {
		return false
	}
	defer func() { _, _ = scratch.DeleteOne(context.WithoutCancel(ctx), id) }() // one that stays does no harm
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "column.9", Value: 1}, {Key: "column.10", Value: 1}}}}
	if _, err := scratch.UpdateOne(ctx, id, set); err != nil {
		return false
	}
	var after struct{ Column bson.D }
	if err := scratch.FindOne(ctx, id).Decode(&after); err != nil || len(after.Column) == 0 || after.Column[0].Key == "9" {
		return false
	}
	s.db.Log().Info("this server orders the paths of an update as text: buckets are rolled over when their indexes get longer",
		"collection", s.namespace())
	return true
}

// measuresDocuments reports whether a query can ask for the size of a document: tried on the options document, whose size
// is known.
func (s *series) measuresDocuments(ctx context.Context) bool {
	query := mongodb.Query{Filter: mongodb.WithID(timeseries.DefinitionID)}
	whole, err := mongodb.First(ctx, s.ports.Options, query)
	if err != nil {
		return false
	}
	query.Projection = mongodb.Document(bson.D{{Key: sizeField, Value: bson.D{{Key: "$bsonSize", Value: "$$ROOT"}}}})
	answer, err := mongodb.First(ctx, s.ports.Options, query)
	size, ok := answer.Lookup(sizeField).AsInt64OK()
	return err == nil && ok && size == int64(len(whole))
}
