package measurement

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// modelNames are so few that random paths often match.
var modelNames = []string{"a", "b", "c", "d"}

// TestPathsAgreeWithNaiveModel decodes random events with random settings, in JSON, after a frame and in BSON. It compares each
// measurement with a model that applies the settings one by one to maps.
func TestPathsAgreeWithNaiveModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stored, refused := 0, map[Reason]int{}
	for settings := 0; settings < 200; {
		o := randomPaths(random)
		if o.CheckPaths() != nil {
			continue
		}
		settings++
		o.StoredMeta, o.StoredTime = "meta", "time"
		inText, inBSONToo := newDecoder(t, o), o
		inBSONToo.Format = BSON
		binary := newDecoder(t, inBSONToo)
		o.Framing = Confluent
		framed := newDecoder(t, o)
		for range 10 {
			event := randomEvent(random, o.Root, 0)
			text, err := json.Marshal(event)
			if err != nil {
				t.Fatal(err)
			}
			want := modelOf(o, event)
			for _, got := range []string{
				outcome(t, inText, text), outcome(t, binary, inBSON(t, string(text))), outcome(t, framed, append([]byte{0, 0, 0, 0, 9}, text...)),
			} {
				if got != want.text {
					t.Fatalf("%s\n%+v\ngot  %s\nwant %s", text, o, got, want.text)
				}
			}
			if refused[want.reason]++; want.reason == "" {
				stored++
			}
		}
	}
	t.Logf("%d stored, by reason %v", stored, refused)
	for _, reason := range []Reason{"", NotObject, MissingMeta} {
		if refused[reason] < 50 {
			t.Errorf("only %d outcomes of %q: the model is hardly tried", refused[reason], reason)
		}
	}
}

// outcome returns a decoder's result for a record. It is a measurement in a form without order, a reason, or "skipped".
func outcome(t *testing.T, d *Decoder, value []byte) string {
	t.Helper()
	results, err := d.Decode(recordOf(string(value)))
	switch {
	case err != nil:
		return string(refusal(t, d, recordOf(string(value))).Reason)
	case len(results) == 0:
		return "skipped"
	}
	m := results[0].Measurement
	meta, err := json.Marshal(plainValue(t, m.Meta))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := json.Marshal(plainValue(t, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: document(t, m.Elements)}))
	if err != nil {
		t.Fatal(err)
	}
	if raw := m.Meta; raw.Type == bson.TypeEmbeddedDocument && !sortedNames(t, bson.Raw(raw.Value)) {
		return "meta is not in normal form"
	}
	return string(meta) + " " + string(fields)
}

// sortedNames reports whether the names of a document are sorted.
func sortedNames(t *testing.T, d bson.Raw) bool {
	t.Helper()
	elements, err := d.Elements()
	if err != nil {
		t.Fatal(err)
	}
	return slices.IsSortedFunc(elements, func(a, b bson.RawElement) int { return strings.Compare(a.Key(), b.Key()) })
}

// plainValue returns a value of numbers, nulls and objects in the form of encoding/json.
func plainValue(t *testing.T, v bson.RawValue) any {
	t.Helper()
	switch v.Type {
	case bson.TypeInt32:
		return v.Int32()
	case bson.TypeNull:
		return nil
	case bson.TypeEmbeddedDocument:
		elements, err := bson.Raw(v.Value).Elements()
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		for _, e := range elements {
			object[e.Key()] = plainValue(t, e.Value())
		}
		return object
	}
	t.Fatalf("a value of type %s", v.Type)
	return nil
}

// randomPaths returns random settings, many of which contradict each other. The time is the record's.
func randomPaths(random *rand.Rand) Options {
	path := func(longest int) string {
		names := make([]string, 1+random.IntN(longest))
		for i := range names {
			names[i] = modelNames[random.IntN(len(modelNames))]
		}
		return strings.Join(names, ".")
	}
	var o Options
	if random.IntN(2) == 0 {
		o.Root = path(2)
	}
	relative := func(longest int) string {
		if o.Root != "" && random.IntN(4) == 0 {
			return "/" + path(longest)
		}
		return path(longest)
	}
	if random.IntN(2) == 0 {
		o.Fields = path(2)
	}
	for range random.IntN(3) {
		o.Drop = append(o.Drop, path(3))
	}
	if random.IntN(3) == 0 {
		o.MetaField = relative(2)
		return o
	}
	for i := range 1 + random.IntN(3) {
		part := relative(3)
		if random.IntN(2) == 0 {
			part = string(rune('z'-i)) + "=" + part
		}
		o.MetaFields = append(o.MetaFields, part)
	}
	return o
}

// randomEvent returns an object of numbers, nulls and objects. Most contain the root.
func randomEvent(random *rand.Rand, root string, depth int) map[string]any {
	event := map[string]any{}
	for _, name := range modelNames {
		switch random.IntN(4) {
		case 0:
			event[name] = random.IntN(100)
		case 1, 2:
			if depth < 4 {
				event[name] = randomEvent(random, "", depth+1)
			}
		case 3:
			if random.IntN(4) == 0 {
				event[name] = nil
			}
		}
	}
	if name, rest, _ := strings.Cut(root, "."); root != "" && random.IntN(4) > 0 {
		event[name] = randomEvent(random, rest, depth+1)
	}
	return event
}

// modelled is the model's result for an event.
type modelled struct {
	text   string
	reason Reason
}

func modelRefusal(reason Reason) modelled { return modelled{string(reason), reason} }

// modelOf decodes an event in the simplest way. It follows each path separately, and deletes the value found.
func modelOf(o Options, event map[string]any) modelled {
	place := func(path string) []string {
		if whole, ok := strings.CutPrefix(path, "/"); ok && o.Root != "" {
			return strings.Split(whole, ".")
		}
		if o.Root != "" {
			path = o.Root + "." + path
		}
		return strings.Split(path, ".")
	}
	if o.Root != "" {
		for i := range strings.Split(o.Root, ".") {
			v, found := follow(event, strings.Split(o.Root, ".")[:i+1])
			if found && v == nil {
				return modelled{"skipped", "skipped"}
			}
			if _, isObject := v.(map[string]any); !isObject {
				return modelRefusal(NotObject)
			}
		}
	}
	storedPath := strings.Split(o.Root, ".")
	if o.Fields != "" {
		storedPath = place(o.Fields)
	}
	stored := any(event)
	if o.Root != "" || o.Fields != "" {
		stored, _ = follow(event, storedPath)
	}
	fields, isObject := stored.(map[string]any)
	if !isObject {
		return modelRefusal(NotObject)
	}
	parts := map[string]any{}
	if o.MetaField != "" {
		if v, found := takeOut(event, place(o.MetaField)); found {
			parts[""] = v
		}
	}
	for _, part := range o.MetaFields {
		name, path, renamed := strings.Cut(part, "=")
		if !renamed {
			path = part
			name = part[strings.LastIndexAny(part, "./")+1:]
		}
		if v, found := takeOut(event, place(path)); found {
			parts[name] = v
		}
	}
	for _, path := range o.Drop {
		takeOut(event, place(path))
	}
	if len(parts) == 0 {
		return modelRefusal(MissingMeta)
	}
	meta := any(parts)
	if o.MetaField != "" {
		meta = parts[""]
	}
	return modelled{text: modelText(meta) + " " + modelText(fields)}
}

func modelText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// follow returns the value at a path.
func follow(event map[string]any, path []string) (any, bool) {
	v, found := event[path[0]]
	if object, isObject := v.(map[string]any); isObject && len(path) > 1 {
		return follow(object, path[1:])
	}
	return v, found && len(path) == 1
}

// takeOut deletes the value at a path, and parent objects that become empty.
func takeOut(event map[string]any, path []string) (any, bool) {
	v, found := event[path[0]]
	if !found {
		return nil, false
	}
	if len(path) == 1 {
		delete(event, path[0])
		return v, true
	}
	object, isObject := v.(map[string]any)
	if !isObject {
		return nil, false
	}
	inner, found := takeOut(object, path[1:])
	if found && len(object) == 0 {
		delete(event, path[0])
	}
	return inner, found
}
