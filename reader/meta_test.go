package reader

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestFiltersCompareWithStoredMetas checks that objects in a filter get the stored order of names, at every depth. Operators keep
// their order.
func TestFiltersCompareWithStoredMetas(t *testing.T) {
	s := newSeries("s", "db.s.buckets", testOptions, nil)
	object := bson.D{{Key: "b", Value: 1}, {Key: "a", Value: bson.D{{Key: "d", Value: 2}, {Key: "c", Value: 3}}}}
	const sorted = `{"a": {"c": {"$numberInt":"3"},"d": {"$numberInt":"2"}},"b": {"$numberInt":"1"}}`
	for _, c := range []struct {
		filter bson.D
		want   string
		whole  bool
	}{
		{bson.D{{Key: "m", Value: object}}, `{"meta": ` + sorted + `}`, true},
		{bson.D{{Key: "m", Value: bson.D{{Key: "$eq", Value: object}}}}, `{"meta": {"$eq": ` + sorted + `}}`, true},
		{bson.D{{Key: "m", Value: bson.D{}}}, `{"meta": {}}`, true},
		{bson.D{{Key: "m", Value: nil}}, `{"meta": null}`, true},
		{bson.D{{Key: "m", Value: bson.D{{Key: "$in", Value: bson.A{object, "x"}}}}}, `{"meta": {"$in": [` + sorted + `,"x"]}}`, false},
		{bson.D{{Key: "m.b", Value: object}}, `{"meta.b": ` + sorted + `}`, false},
		{bson.D{{Key: "m", Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gt", Value: object}}}}}}, `{"meta": {"$not": {"$gt": ` + sorted + `}}}`, false},
		{bson.D{{Key: "m", Value: bson.D{{Key: "$elemMatch", Value: bson.D{{Key: "z", Value: object}, {Key: "y", Value: 1}}}}}}, `{"meta": {"$elemMatch": {"z": ` + sorted + `,"y": {"$numberInt":"1"}}}}`, false},
		{bson.D{{Key: "$or", Value: bson.A{bson.D{{Key: "m", Value: object}}, bson.D{{Key: "m.z", Value: 1}}}}}, `{"$or": [{"meta": ` + sorted + `},{"meta.z": {"$numberInt":"1"}}]}`, false},
		{bson.D{{Key: "m", Value: bson.D{{Key: "$regex", Value: "^s"}, {Key: "$options", Value: "i"}}}}, `{"meta": {"$regex": "^s","$options": "i"}}`, false},
		{bson.D{{Key: "m", Value: bson.Regex{Pattern: "^s"}}}, `{"meta": {"$regularExpression":{"pattern":"^s","options":""}}}`, false},
		{bson.D{{Key: "$expr", Value: bson.D{{Key: "$and", Value: bson.A{bson.D{{Key: "$eq", Value: bson.A{"$m.b", bson.D{{Key: "$literal", Value: object}}}}}, true}}}}}, `{"$expr": {"$and": [{"$eq": ["$meta.b",{"$literal": ` + sorted + `}]},true]}}`, false},
		{bson.D{{Key: "m", Value: "s"}, {Key: "m.x", Value: 1}}, `{"meta": "s","meta.x": {"$numberInt":"1"}}`, false},
		{bson.D{}, `{}`, false},
	} {
		filter, whole, err := s.metaFilter(c.filter)
		if err != nil {
			t.Errorf("%v: %v", c.filter, err)
			continue
		}
		if got := encode(append(bson.D{}, filter...)).String(); got != c.want || (whole != nil) != c.whole {
			t.Errorf("%v became %s, whole %v; want %s, %v", c.filter, got, whole, c.want, c.whole)
		}
	}
}
