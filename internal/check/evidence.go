package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"waterwheel/internal/kafka/recordbatch"
	"waterwheel/internal/record"
)

// These bound the analysis of one sample.
const (
	deepest     = 7    // names in a path
	mostPaths   = 1000 // different paths
	listedItems = 20   // elements of a list
	shownText   = 60   // characters of an example
)

// evidence holds statistics of all records of a sample, whatever their encoding, in bounded memory. Paths begin at the top of an
// event. Paths into lists continue after "[]".
type evidence struct {
	topic   string
	records int
	objects int // events that are objects; each element of an array counts
	fields  map[string]*field
	crowded bool // there are more paths than are analysed

	encodings encodings

	// isLog means that the records are whole, with their keys and timestamps. Otherwise only their values are known.
	isLog   bool
	keyed   int // records with a key
	framed  int // of those, with a schema registry's frame before the key
	random  int // of those, with a key that looks random
	keys    *distinct
	headers map[string]*distinct

	own map[string]bool // for events found in a list: the paths that they do not inherit

	decimals map[string]decimal // fields that are decimals according to the records' own schemas
	schemas  int                // number of such schemas that were read

	of struct { // the current record
		place   place
		key     uint64
		keyText map[string]bool
	}
}

// place is the place of a record in a sample.
type place struct {
	partition int32
	offset    int64
}

// field holds statistics of the values at one path.
type field struct {
	path                                        string
	seen, nulls, texts, numbers, fractions      int
	flags, objects, lists, rows                 int // rows: lists of objects
	numerals, commas, units, encoded, documents int // texts that are numbers, …, base64, JSON or JSON in base64
	pointed                                     int // numerals that are not whole numbers
	fine                                        int // times with digits below the millisecond
	equalsKey                                   int
	longest                                     int // length of the longest list
	values, byKey                               *distinct
	text, number                                example
}

// example is an example of a kind of values.
type example struct {
	text string
	at   place
}

// String quotes a text that is an example.
func (e example) String() string { return fmt.Sprintf("%q", e.text) }

func newEvidence(topic string, isLog bool) *evidence {
	return &evidence{
		topic: topic, fields: map[string]*field{}, isLog: isLog, keys: newDistinct(keptValues), headers: map[string]*distinct{},
		encodings: newEncodings(), decimals: map[string]decimal{},
	}
}

// add analyses a record.
func (e *evidence) add(partition int32, r *record.Record) {
	e.records++
	e.of.place = place{partition, r.Offset}
	e.addKey(r.Key)
	e.addHeaders(r.Headers)
	for _, o := range e.encodings.read(r) {
		e.objects++
		if isConnect(o) {
			e.addSchema(o["schema"])
			o = object{"schema": true, "payload": o["payload"]}
		}
		e.walk(o, "", 1)
	}
}

// addKey analyses a record's key. The order of the key's members does not matter.
func (e *evidence) addKey(key []byte) {
	e.of.key, e.of.keyText = 0, nil
	if len(key) == 0 {
		return
	}
	e.keyed++
	if len(key) > frameBytes && key[0] == 0 {
		e.framed++
		key = key[frameBytes:]
	}
	e.of.keyText = map[string]bool{string(key): true}
	if looksRandom(string(key)) {
		e.random++
	}
	if list, ok := readJSON(key); ok && key[0] == '{' {
		for _, member := range list[0] {
			e.of.keyText[fmt.Sprint(member)] = true
		}
		if text, err := json.Marshal(list[0]); err == nil {
			key = text
		}
	}
	e.of.key = hashOf(key)
	e.keys.add(e.of.key, 0)
}

// addHeaders analyses a record's headers.
func (e *evidence) addHeaders(raw []byte) {
	headers, err := recordbatch.ParseHeaders(raw)
	if err != nil {
		return
	}
	for _, h := range headers {
		one := e.headers[h.Key]
		if one == nil {
			if len(e.headers) == listedItems {
				continue
			}
			one = newDistinct(keptValues)
			e.headers[h.Key] = one
		}
		one.add(hashOf(h.Value), 0)
	}
}

// walk analyses the members of an object.
func (e *evidence) walk(o object, prefix string, depth int) {
	for name, value := range o {
		if name != "" {
			e.value(prefix+name, value, depth)
		}
	}
}

// value analyses one value.
func (e *evidence) value(path string, value any, depth int) {
	f := e.fields[path]
	if f == nil {
		if len(e.fields) == mostPaths {
			e.crowded = true
			return
		}
		f = &field{path: path}
		e.fields[path] = f
	}
	f.seen++
	if o, isObject := value.(object); isObject && len(o) == 1 {
		value = scalarOf(o)
	}
	switch v := value.(type) {
	case nil:
		f.nulls++
	case bool:
		f.flags++
	case string:
		e.addText(f, v)
	case json.Number:
		e.addNumber(f, v.String())
	case []any:
		e.addList(f, v, depth)
	case object:
		f.objects++
		if depth < deepest {
			e.walk(v, path+".", depth+1)
		}
	}
}

// scalarOf returns the number or the text that Extended JSON writes as an object of one member, such as {"$date": …}. It returns
// other objects as they are.
func scalarOf(o object) any {
	for name, value := range o {
		_, isNumber := value.(json.Number)
		switch {
		case !strings.HasPrefix(name, "$"):
		case isNumber, name == "$numberLong", name == "$numberInt", name == "$numberDouble", name == "$numberDecimal":
			return json.Number(fmt.Sprint(value))
		default:
			return fmt.Sprint(value)
		}
	}
	return o
}

func (e *evidence) addText(f *field, text string) {
	f.texts++
	if f.text.text == "" {
		f.text = e.example(text)
	}
	f.inText(text)
	e.identify(f, text)
}

func (e *evidence) addNumber(f *field, text string) {
	f.numbers++
	if f.number.text == "" {
		f.number = e.example(text)
	}
	if isFine(text) {
		f.fine++
	}
	if strings.ContainsAny(text, ".eE") {
		f.fractions++
		return
	}
	e.identify(f, text)
}

// identify counts a value that may identify something.
func (e *evidence) identify(f *field, text string) {
	if f.values == nil {
		f.values, f.byKey = newDistinct(keptValues), newDistinct(keptValues)
	}
	hash := hashOf([]byte(text))
	f.values.add(hash, e.of.key)
	if e.of.key != 0 {
		f.byKey.add(e.of.key, hash)
	}
	if e.of.keyText[text] {
		f.equalsKey++
	}
}

func (e *evidence) addList(f *field, list []any, depth int) {
	f.lists++
	f.longest = max(f.longest, len(list))
	rows := false
	for _, element := range list[:min(len(list), listedItems)] {
		o, isObject := element.(object)
		if isObject && depth < deepest {
			e.walk(o, f.path+"[].", depth+1)
		}
		rows = rows || isObject
	}
	if rows {
		f.rows++
	}
}

func (e *evidence) example(text string) example {
	if cut := []rune(text); len(cut) > shownText {
		text = string(cut[:shownText]) + "…"
	}
	return example{text, e.of.place}
}

// where formats a place of the sample for people.
func (e *evidence) where(at place) string {
	if e.topic == FeedName {
		return fmt.Sprintf("event %d", at.offset+1)
	}
	return fmt.Sprintf("%s/%d/%d", e.topic, at.partition, at.offset)
}

// list returns the fields, sorted by path.
func (e *evidence) list() []*field {
	return slices.SortedFunc(maps.Values(e.fields), func(a, b *field) int { return strings.Compare(a.path, b.path) })
}

// at returns the field of a path. If there is none, it returns one without any values.
func (e *evidence) at(path string) *field {
	if f := e.fields[path]; f != nil {
		return f
	}
	return &field{path: path}
}

// looksRandom reports whether a text looks like a UUID or a hash. Such a text identifies an event more often than a thing.
func looksRandom(text string) bool {
	digits, letters := 0, 0
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			letters++
		case c != '-':
			return false
		}
	}
	return digits >= 6 && letters >= 3 && digits+letters >= 24
}

// settable reports whether settings can name a path. For example, EVENT_META_FIELDS separates paths with commas.
func settable(path string) bool {
	return !strings.ContainsAny(path, ",= []") && !strings.HasPrefix(path, "$") && !strings.Contains(path, ".$") && strings.IndexByte(path, 0) < 0
}
