package check

import (
	"bytes"
	"encoding/json"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/measurement"
	"waterwheel/record"
)

// frameBytes is how long the frame of a schema registry is.
const frameBytes = 5

// object is one event of a sample, or an object of it.
type object = map[string]any

// readable is what of a sample can be read, however it is encoded.
type readable struct {
	records []record.Record
	objects []object
	framing measurement.Framing
	format  measurement.Format
	keys    int // records with a key
	strange int // records that are neither JSON nor BSON
	framed  int // of those, how many begin as with a frame
}

// read finds out how records are encoded, and reads their events.
func read(records []record.Record) readable {
	r := readable{records: records, framing: measurement.NoFraming, format: measurement.JSON}
	framed, inBSON, extended := 0, 0, 0
	for i := range records {
		value := records[i].Value
		if len(records[i].Key) > 0 {
			r.keys++
		}
		if list, ok := readDocument(value); ok {
			inBSON++
			r.objects = append(r.objects, list)
			continue
		}
		text := value
		if len(value) > frameBytes && value[0] == 0 {
			text = value[frameBytes:]
		}
		list, ok := readJSON(text)
		switch {
		case ok && len(text) < len(value):
			framed++
		case !ok:
			r.strange++
			if len(text) < len(value) {
				r.framed++
			}
		}
		if bytes.Contains(text, []byte(`"$`)) {
			extended++
		}
		r.objects = append(r.objects, list...)
	}
	switch n := len(records); {
	case inBSON*2 > n:
		r.format = measurement.BSON
	case extended*2 > n:
		r.format = measurement.ExtJSON
	}
	if framed*2 > len(records) {
		r.framing = measurement.Confluent
	}
	return r
}

// readDocument reads a BSON document, as its Extended JSON.
func readDocument(value []byte) (object, bool) {
	if len(value) < 5 || bson.Raw(value).Validate() != nil {
		return nil, false
	}
	text, err := bson.MarshalExtJSON(bson.Raw(value), false, false)
	if err != nil {
		return nil, false
	}
	list, ok := readJSON(text)
	if !ok {
		return nil, false
	}
	return list[0], true
}

// readJSON reads a JSON object, or the objects of an array.
func readJSON(text []byte) (list []object, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	switch v := value.(type) {
	case object:
		list = append(list, v)
	case []any:
		for _, element := range v {
			if o, isObject := element.(object); isObject {
				list = append(list, o)
			}
		}
	}
	return list, len(list) > 0
}

// within are the objects that a field of these objects holds, as far as it does.
func within(list []object, name string) (inner []object) {
	for _, o := range list {
		if v, ok := o[name].(object); ok {
			inner = append(inner, v)
		}
	}
	return inner
}

// most tells whether nearly all objects are so.
func most(list []object, is func(object) bool) bool {
	n := 0
	for _, o := range list {
		if is(o) {
			n++
		}
	}
	return n > 0 && n*10 >= len(list)*9
}
