package measurement

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/bson"

	"waterwheel/timeseries/rawbson"
)

// maxMetaBytes bounds a normalised meta: it stands in every bucket, in an index, and in every update's filter.
const maxMetaBytes = 8 << 10

// metaOf returns the normalised meta of the event that was copied.
func (d *Decoder) metaOf(event []byte) (bson.RawValue, *DecodeError) {
	switch d.options.MetaFrom {
	case MetaFromNone:
		return bson.RawValue{}, nil
	case MetaFromKey:
		return d.keyMeta, nil
	}
	if d.foundMeta.Kind == 0 {
		return bson.RawValue{}, d.missingMeta(event)
	}
	d.path = append(d.path[:0], d.options.MetaField...)
	return d.normalize(d.foundMeta.Kind, d.foundMeta.Value)
}

// readKey makes meta of the record's key: parsed when it is a JSON object, else as text.
func (d *Decoder) readKey() *DecodeError {
	const path = "key"
	key := d.record.Key
	if key == nil {
		return newError(MissingMeta, path, "the record has no key: produce it with one, or set EVENT_META_FROM to value or none")
	}
	d.path = append(d.path[:0], path...)
	d.fields = d.fields[:0]
	if value, isObject, err := d.parseKey(key); err != nil {
		return err
	} else if isObject {
		d.keyMeta, err = d.normalize(value.Kind, value.Value)
		return err
	}
	if !utf8.Valid(key) {
		return badText(path, key)
	}
	d.keyText = rawbson.AppendString(d.keyText[:0], key)
	var err *DecodeError
	d.keyMeta, err = d.normalize(bson.TypeString, d.keyText)
	return err
}

// parseKey reads the key if it is a JSON object; its error is then of one that could not be stored.
func (d *Decoder) parseKey(key []byte) (value rawbson.Element, isObject bool, err *DecodeError) {
	if !bytes.HasPrefix(bytes.TrimLeft(key, " \t\r\n"), []byte{'{'}) {
		return value, false, nil
	}
	j := d.json
	j.begin(key)
	j.clear()
	value.Kind, err = j.objectOrWrapper(1)
	if !j.broken && j.skip() == nil {
		_ = j.end() // only whether it is JSON matters
	}
	if j.broken {
		return value, false, nil
	}
	value.Value, d.dotted = j.out, j.dotted
	if nest := j.dotted && d.options.DottedNames == Nest; err == nil && nest && value.Kind == bson.TypeEmbeddedDocument {
		value.Value, err = d.nester.nest(j.out)
		d.dotted = false
	}
	if err != nil {
		if err.Path != "" {
			d.path.push([]byte(err.Path))
		}
		err.Path = string(d.path)
	}
	return value, true, err
}

// normalize appends a meta value with the fields of all its objects sorted by their names' bytes, and returns it.
func (d *Decoder) normalize(kind bson.Type, value []byte) (bson.RawValue, *DecodeError) {
	if kind == bson.TypeTimestamp && bytes.Equal(value, make([]byte, 8)) {
		return bson.RawValue{}, newError(BadMeta, string(d.path), "the timestamp (0, 0) cannot name a series: MongoDB stores the present time instead")
	}
	start := len(d.out)
	if err := d.appendNormal(kind, value, 1); err != nil {
		return bson.RawValue{}, err
	}
	end := len(d.out)
	if end-start > maxMetaBytes {
		return bson.RawValue{}, newError(BadMeta, string(d.path), "it has %d bytes, more than %d, and would stand in every bucket: "+
			"keep in it only what names the series", end-start, maxMetaBytes)
	}
	return bson.RawValue{Type: kind, Value: d.out[start:end:end]}, nil
}

func (d *Decoder) appendNormal(kind bson.Type, value []byte, depth int) *DecodeError {
	if depth > maxDepth {
		return tooDeep(string(d.path))
	}
	switch kind {
	case bson.TypeRegex, bson.TypeUndefined, bson.TypeDBPointer:
		return newError(BadMeta, string(d.path), "a %s cannot name a series: send a string, a number or an object", kind)
	case bson.TypeEmbeddedDocument:
		return d.appendSorted(rawbson.Content(value), depth)
	case bson.TypeArray:
		return d.appendNormalArray(rawbson.Content(value), depth)
	}
	d.out = append(d.out, value...)
	return nil
}

func (d *Decoder) appendSorted(list []byte, depth int) *DecodeError {
	first, sorted := len(d.fields), true
	for len(list) > 0 {
		var e rawbson.Element
		list = e.Cut(list)
		if err := d.checkName(e.Name); err != nil {
			return err
		}
		sorted = sorted && (len(d.fields) == first || byName(d.fields[len(d.fields)-1], e) < 0)
		d.fields = append(d.fields, e)
	}
	last := len(d.fields)
	if !sorted {
		slices.SortFunc(d.fields[first:], byName)
	}
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0)
	for i := first; i < last; i++ {
		e := d.fields[i]
		if !sorted && i > first && bytes.Equal(e.Name, d.fields[i-1].Name) {
			return duplicateField(d.path.to(e.Name))
		}
		above := d.path.push(e.Name)
		d.out = rawbson.AppendHeader(d.out, e.Kind, e.Name)
		if err := d.appendNormal(e.Kind, e.Value, depth+1); err != nil {
			return err
		}
		d.path.pop(above)
	}
	d.out = rawbson.EndDocument(d.out, start)
	d.fields = d.fields[:first]
	return nil
}

// byName orders elements by the bytes of their names.
func byName(a, b rawbson.Element) int { return bytes.Compare(a.Name, b.Name) }

func (d *Decoder) appendNormalArray(list []byte, depth int) *DecodeError {
	start := len(d.out)
	d.out = append(d.out, 0, 0, 0, 0)
	for i := 0; len(list) > 0; i++ {
		var e rawbson.Element
		list = e.Cut(list)
		above := d.path.pushIndex(i)
		d.out = rawbson.AppendIndexHeader(d.out, e.Kind, i)
		if err := d.appendNormal(e.Kind, e.Value, depth+1); err != nil {
			return err
		}
		d.path.pop(above)
	}
	d.out = rawbson.EndDocument(d.out, start)
	return nil
}
