package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// statement is a statement of mongosh, that is, a query on a collection.
type statement struct {
	collection, method string
	arguments          []bson.RawValue
	sort               bson.RawValue
	limit              int64
}

var (
	shellStatement = regexp.MustCompile(`(?s)^db\.(?:getCollection\("([^"]+)"\)|(\w+))\.(find|aggregate)\((.*)\)$`)
	shellSort      = regexp.MustCompile(`(?s)^(.*)\)\.sort\((\{[^()]*\})$`)
	shellLimit     = regexp.MustCompile(`(?s)^(.*)\)\.limit\((\d+)$`)
	shellDate      = regexp.MustCompile(`ISODate\(("[^"]*")\)`)
	shellName      = regexp.MustCompile(`([{,]\s*)([$A-Za-z_]\w*)\s*:`)
)

// parseStatement parses the parts of mongosh's language that the documents use. They are find and aggregate with sort and limit,
// and objects with bare names and dates.
func parseStatement(text string) (s statement, err error) {
	parts := shellStatement.FindStringSubmatch(text)
	if parts == nil {
		return s, fmt.Errorf("%q is not understood", text)
	}
	s.collection, s.method = parts[1]+parts[2], parts[3]
	arguments, by := parts[4], "null"
	if limited := shellLimit.FindStringSubmatch(arguments); limited != nil {
		arguments = limited[1]
		if _, err := fmt.Sscan(limited[2], &s.limit); err != nil {
			return s, err
		}
	}
	if sorted := shellSort.FindStringSubmatch(arguments); sorted != nil {
		arguments, by = sorted[1], sorted[2]
	}
	object := shellDate.ReplaceAllString(fmt.Sprintf(`{"arguments": [%s], "sort": %s}`, arguments, by), `{"$$date": $1}`)
	object = shellName.ReplaceAllString(object, `$1"$2":`)
	var parsed struct {
		Arguments []bson.RawValue `bson:"arguments"`
		Sort      bson.RawValue   `bson:"sort"`
	}
	if err := bson.UnmarshalExtJSON([]byte(object), false, &parsed); err != nil {
		return s, fmt.Errorf("%s: %w", object, err)
	}
	s.arguments, s.sort = parsed.Arguments, parsed.Sort
	return s, nil
}

// run runs the statement with the driver.
func (s *statement) run(ctx context.Context, db *mongo.Database) (found []bson.M, err error) {
	var cursor *mongo.Cursor
	switch s.method {
	case "aggregate":
		var stages []bson.Raw
		if err := s.arguments[0].Unmarshal(&stages); err != nil {
			return nil, err
		}
		cursor, err = db.Collection(s.collection).Aggregate(ctx, stages)
	default:
		o := options.Find().SetLimit(s.limit)
		if s.sort.Type == bson.TypeEmbeddedDocument {
			o.SetSort(s.sort.Document())
		}
		if len(s.arguments) > 1 {
			o.SetProjection(s.arguments[1].Document())
		}
		cursor, err = db.Collection(s.collection).Find(ctx, s.arguments[0].Document(), o)
	}
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	return found, err
}

// standIn copies the measurements to an ordinary collection.
func (s *stream) standIn(c *mongo.Collection) {
	s.t.Helper()
	_, out, errs := s.query("measurements", "--format", "json")
	var documents []bson.Raw
	for line := range strings.Lines(out) {
		var document bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(line), false, &document); err != nil {
			s.t.Fatal(err)
		}
		documents = append(documents, document)
	}
	if _, err := c.InsertMany(within(s.t, 20*time.Second), documents); err != nil {
		s.t.Fatal(err, errs)
	}
}

// TestReadingInMongosh runs the mongosh statements of the documents with the driver.
func TestReadingInMongosh(t *testing.T) {
	t.Parallel()
	s := newReadings(t)
	db := s.readable()
	names, err := db.ListCollectionNames(within(t, 10*time.Second), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names, "measurements") {
		t.Log("this server has no view of the measurements: a collection of the same documents stands in for it")
		s.standIn(db.Collection("measurements"))
	}
	// These are the numbers of documents that each must find, in the order of the documents.
	want := map[string][]int{
		"../README.md":       {10, 1, 3},
		"../docs/reading.md": {readingsEach, 100, 3, 3},
	}
	for _, e := range examples(t, "db.") {
		for _, text := range statements(e.text) {
			if len(want[e.document]) == 0 {
				t.Fatalf("how many documents does this find? %s", text)
			}
			count := want[e.document][0]
			want[e.document] = want[e.document][1:]
			t.Run(example{e.document, text}.name(), func(t *testing.T) { runStatement(t, db, text, count) })
		}
	}
	for document, left := range want {
		if len(left) > 0 {
			t.Errorf("%s lacks %d statements", document, len(left))
		}
	}
}

// statements returns the statements of a block, each of which begins a line.
func statements(block string) (list []string) {
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "db.") {
			list = append(list, "")
		}
		list[len(list)-1] += line
	}
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func runStatement(t *testing.T, db *mongo.Database, text string, count int) {
	s, err := parseStatement(text)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.run(within(t, 30*time.Second), db)
	const notImplemented, invalidOperator = 238, 168
	if refused, ok := errors.AsType[mongo.CommandError](err); ok && (refused.Code == notImplemented ||
		refused.Code == invalidOperator && strings.Contains(refused.Message, "$dateTrunc")) { // MongoDB supports it from 5.0 on
		t.Skip("this server does not know it: ", err)
	}
	if err != nil || len(found) != count {
		t.Fatalf("%d documents, %v, want %d", len(found), err, count)
	}
	if strings.Contains(text, "$control.count") {
		wantTotals(t, found)
	}
}

func TestStatementsAreUnderstood(t *testing.T) {
	s, err := parseStatement(`db.getCollection("a.b").find({"meta.x": {$in: ["s: {1", 2]}, time: {$gte: ISODate("2026-03-01T12:00:00Z")}}, {time: 1}).sort({time: -1}).limit(7)`)
	if err != nil {
		t.Fatal(err)
	}
	if s.collection != "a.b" || s.method != "find" || s.limit != 7 || s.sort.String() != `{"time": {"$numberInt":"-1"}}` || len(s.arguments) != 2 ||
		s.arguments[0].Document().Lookup("time", "$gte").Type != bson.TypeDateTime {
		t.Errorf("%+v", s)
	}
	if _, err := parseStatement("db.x.insertOne({})"); err == nil {
		t.Error("an insert was understood")
	}
}
